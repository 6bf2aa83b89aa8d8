"""What an object must be called, lie in and be labelled with for a rule to say anything of it.

:func:`premise` reads it from the head of a rule's verified code: tests of the object at whose failure the code ends
without a result. ``runtime.narrowing`` leaves rules out by it, so that policies for other objects of a kind cost
nothing. What it says is necessary, not enough: the code decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from vm.code import PathKey, read_uleb
from vm.intrinsics.wildcard import contains_wildcard
from vm.isa import BY_NAME
from vm.structure import Structure
from vm.values import Value
from vm.verify import VerifiedModule

_RESOURCE: Final[PathKey] = ("$resource",)


@dataclass(frozen=True, slots=True)
class Premise:
    """``names`` and ``namespaces`` are wildcards, of which one matches (none: any do); ``label`` is a pair that is
    among the labels, None where no one pair must be."""

    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    label: tuple[str, str] | None = None


NONE: Final = Premise()


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Value


@dataclass(frozen=True, slots=True)
class _Test:
    """A test of the object, by an intrinsic, against a constant."""

    name: str
    wanted: Value


_Symbol: TypeAlias = PathKey | _Constant | _Test
"""What a value of the head is known as: a path of the root, a constant, or a test."""


def premise(m: VerifiedModule, entry: int) -> Premise:
    """The premise of a rule, by the number of its function; :data:`NONE` where its code begins otherwise. The answer is
    kept with the module."""
    found = m.premises.get(entry)
    if found is None:
        found = m.premises[entry] = _of_tests(_head(m, entry)) if _may_test(m, entry) else NONE
    return found


def _may_test(m: VerifiedModule, entry: int) -> bool:
    """Whether code begins with the object, without taking it apart: most rules begin with something else, and a set is
    made of all rules whenever one policy changes."""
    code = m.functions[entry].code
    return code[0] == BY_NAME["path"].number and m.paths[read_uleb(code, 1)[0]] == _RESOURCE


def _head(m: VerifiedModule, entry: int) -> list[_Test]:
    """The tests that must hold one after the other before the code does anything else."""
    struct = m.functions[entry].structure()
    stack: list[_Symbol] = []
    kept: dict[int, _Symbol] = {}
    tests: list[_Test] = []
    for at, (_, op, a, _) in enumerate(struct.instrs):
        match op.name:
            case "path":
                stack.append(m.paths[a])
            case "const":
                stack.append(_Constant(m.constants[a]))
            case "tee":
                kept[a] = stack[-1]
            case "local" if a in kept:
                stack.append(kept[a])
            case "invoke" if len(stack) > 1 and stack[-2] == _RESOURCE and isinstance(stack[-1], _Constant):
                test = _Test(m.intrinsics[a].name, stack.pop().value)  # type: ignore[union-attr]
                stack[-1] = test
            case "if" if isinstance(stack[-1], _Test) and _ends_without_result(struct, struct.partner[at]):
                tests.append(stack.pop())  # type: ignore[arg-type]
            case _:
                return tests
    return tests


def _ends_without_result(struct: Structure, end: int) -> bool:
    """Whether behind an ``if`` whose condition does not hold nothing follows but ``o_none``."""
    at = end
    while struct.instrs[at].op.name == "end":
        at += 1
        if at == len(struct.instrs):
            return False
    return [i.op.name for i in struct.instrs[at : at + 2]] == ["o_none", "ret"]


def _of_tests(tests: list[_Test]) -> Premise:
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    label: tuple[str, str] | None = None
    for test in tests:
        match test:
            case _Test("match.names", [*wanted]) if _are_texts(wanted) and not names:
                names = tuple(wanted)
            case _Test("match.namespaces", [*wanted]) if _are_texts(wanted) and not namespaces:
                namespaces = tuple(wanted)
            case _Test("match.selector", {"matchLabels": dict(wanted)}) if label is None:
                label = _plain_pair(wanted)
    return Premise(names, namespaces, label)


def _are_texts(values: list[Value]) -> bool:
    return bool(values) and all(type(v) is str for v in values)


def _plain_pair(labels: dict[str, Value]) -> tuple[str, str] | None:
    """A pair of a selector that holds no wildcard, so that it must be there as it is."""
    for key, value in sorted(labels.items()):
        if type(value) is str and not contains_wildcard(key) and not contains_wildcard(value):
            return key, value
    return None
