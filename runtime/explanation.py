"""What a traced run of a rule says about its answer: the clauses that were looked at, and the one that decided.

:func:`explain` reads a :class:`runtime.tracing.Ran`; ``runtime.cli.why`` prints what comes out. Nothing is evaluated
here but the walk of a pattern once more, which notes where in the pattern it ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from runtime.explanation_words import attribute, changes, dotted, expands, relative, shown_key
from runtime.policyset import RulePlan
from runtime.tracing import Place, Ran, Unit, place_of, value_at
from vm.host import Imports, Outcome, Status
from vm.intrinsics.pattern_why import decided
from vm.patch.diff import escape
from vm.trace import Event
from vm.values import MISSING, Err, Value

_CONDITION: Final = re.compile(r"/(?:preconditions|conditions|celPreconditions)(?:/(any|all))?/\d+$")
_ENTRY: Final = re.compile(r".*/context/\d+")
_FILTER: Final = re.compile(r"^(.*/(?:match|exclude)(?:/(?:any|all)/\d+)?)(?:/|$)")
_WALKS: Final = {"pat.walk": False, "pat.walk_kyverno": True}
_AUTOGEN: Final = (
    ("autogen-cronjob-", ("spec", "jobTemplate", "spec", "template")),
    ("autogen-", ("spec", "template")),
)
_OWN_NAMESPACE: Final = "a policy in a namespace is for the objects of that namespace"
_EXPRESSION: Final = re.compile(r"/(?:expression|celPreconditions/\d+/expression|matchConditions/\d+/expression)$")

PASSED: Final = "pass"
NO_MATCH: Final = "no match"
_SUBJECT: Final = {"mutate": "$resource", "mutateExisting": "target"}
"""Where the root of a rule that changes objects has the object."""
WORDS: Final = {
    Status.NONE: "none",
    Status.PASS: PASSED,
    Status.FAIL: "fail",
    Status.SKIP: "skip",
    Status.ERROR: "error",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A clause that was looked at.

    ``part`` is ``match``, ``exclude``, ``context``, ``precondition``, ``condition``, ``pattern``, ``element``,
    ``list``, ``security``, ``expression``, ``patch``, ``exception`` or ``end``; ``clause`` is its name within the rule,
    ``held`` what became of it.
    ``found`` and ``wanted`` are MISSING where there is nothing to show; ``path`` is a place in the resource;
    ``elements`` are the elements of loops that it was looked at for.
    """

    part: str
    clause: str
    held: bool | None
    place: Place | None
    found: Value = MISSING
    wanted: Value = MISSING
    operator: str = ""
    path: str = ""
    elements: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a rule came to its answer on a resource. ``status`` is ``no match`` for a rule that says nothing because it
    does not match, ``none`` for one that matched and has no result."""

    status: str
    message: str
    decided: Step | None
    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Scope:
    """The events of a function and of what it calls, without those of elements of loops, which are scopes again."""

    over: dict[str, Any]
    events: list[Event] = field(default_factory=list)
    inner: list[_Scope] = field(default_factory=list)
    answer: Any = None


def explain(ran: Ran, plan: RulePlan, imports: Imports) -> Explanation:
    """Reads the run of a rule."""
    return _Reader(ran, plan, imports).explanation()


class _Reader:
    def __init__(self, ran: Ran, plan: RulePlan, imports: Imports) -> None:
        self.ran = ran
        self.unit: Unit = ran.unit
        self.plan = plan
        self.base = str(plan.meta.get("pointer") or "")
        self.imports = imports
        self.steps: list[Step] = []

    def explanation(self) -> Explanation:
        answer = self.ran.answer
        scope = _scopes(self.ran.events)
        decision = self.decide(scope, answer, ())
        status = answer.status if isinstance(answer, Outcome) else Status.NONE
        word = WORDS[status]
        if status is Status.NONE and decision is not None and decision.part in ("match", "exclude"):
            word = NO_MATCH
        message = (answer.message or "") if isinstance(answer, Outcome) else ""
        if decision is not None and decision.note == message:
            decision = replace(decision, note="")
        return Explanation(word, message, decision, tuple(self.steps))

    # one function

    def decide(self, scope: _Scope, answer: Any, elements: tuple[str, ...]) -> Step | None:
        """The step that decided, after all steps of the scope have been noted."""
        status = answer.status if isinstance(answer, Outcome) else Status.NONE
        ret = next((e for e in reversed(scope.events) if e.kind == "ret"), None)
        at = self.place(ret)
        filters = self.filters(scope)
        cells = [self.cell(e) for e in scope.events if e.kind == "cell"]
        conditions = self.conditions(scope)
        before = [s for s in conditions if s.part == "precondition"]
        after = [s for s in conditions if s.part == "condition"]
        walks = [self.walk(e) for e in scope.events if e.kind == "invoke" and e.name in _WALKS]
        others = _settled(s for e in scope.events if (s := self.other(e)) is not None)
        loops = [(inner, *self.element(inner)) for inner in scope.inner]
        own = [*filters, *_once(cells), *before, *after, *walks, *others]
        self.steps += [replace(s, elements=elements) for s in own]
        ends: list[tuple[_Scope, Step | None]] = []
        for inner, name, place in loops:
            named = (*elements, name)
            self.steps.append(Step("element", name, None, place, elements=elements, note=_outcome(inner)))
            ends.append((inner, self.decide(inner, inner.answer, named)))
        chosen = self.chosen(status, at, filters, before, after, walks, others, ends)
        if chosen is None:
            note = self.reason(status, answer, at, ends)
            chosen = Step("end", self.clause(at), None, at, note=note)
        if not chosen.elements:
            chosen = replace(chosen, elements=elements)
        return chosen

    def chosen(
        self,
        status: Status,
        at: Place | None,
        filters: list[Step],
        before: list[Step],
        after: list[Step],
        walks: list[Step],
        others: list[Step],
        ends: list[tuple[_Scope, Step | None]],
    ) -> Step | None:
        where = at.pointer if at is not None else ""
        if status is Status.NONE and (where.endswith("/match") or (where == self.base and any(map(_broke, filters)))):
            return _mismatch(filters)
        if where.endswith("preconditions") and before:
            return _last(before, held=False)
        if ends and status in (Status.FAIL, Status.ERROR):
            bad = [step for inner, step in ends if _status(inner.answer) in (Status.FAIL, Status.ERROR)]
            return bad[-1] if bad else None
        if ends or (status is Status.PASS and self.plan.kind not in ("validate", "mutate")):
            return None
        if status is Status.ERROR and not walks:
            return next((s for s in reversed(others) if s.part == "list"), None)
        if after and not walks:
            return _last(after, held=status is Status.FAIL)
        if walks:
            if status is Status.PASS:
                return walks[-1]
            # Of several patterns the nearest miss: the one that got deepest into the resource.
            return max(walks, key=lambda s: (s.held is False, s.path.count("/")))
        told = [s for s in others if s.held is False] or others
        return told[-1] if told else None

    def reason(self, status: Status, answer: Any, at: Place | None, ends: Sequence[tuple[_Scope, Any]]) -> str:
        if status is Status.PASS and self.plan.kind in ("mutate", "mutateExisting"):
            return "; ".join(changes(self.ran.root.get(_SUBJECT[self.plan.kind]), answer.patched))
        if status is Status.PASS and self.plan.kind == "generate" and type(answer.patched) is list:
            return "makes " + ", ".join(_named(made) for made in answer.patched)
        if ends:
            counts: dict[str, int] = {}
            for inner, _ in ends:
                word = _outcome(inner)
                counts[word] = counts.get(word, 0) + 1
            return "of the elements " + ", ".join(f"{n} {word}" for word, n in counts.items())
        if status is Status.NONE and at is not None and "/foreach" in at.pointer:
            return "there is no element to look at"
        return (answer.message or "") if isinstance(answer, Outcome) else ""

    # what events say

    def filters(self, scope: _Scope) -> list[Step]:
        steps = []
        for e in scope.events:
            if e.kind == "invoke" and e.name.startswith("match.") and e.name != "match.describe":
                place = self.place(e)
                part = "exclude" if place is not None and "/exclude" in relative(place.pointer, self.base) else "match"
                found, wanted = attribute(e)
                clause = self.clause(place)
                if place is not None and not place.pointer:
                    # A policy of the API server is bound by another document, whose places its code does not have.
                    clause, place = f"{e.name.partition('.')[2]} of the binding", None
                steps.append(Step(part, clause, bool(e.value), place, found, wanted))
            elif e.name == "equal" and self.plan.policy.namespace is not None:
                place = self.place(e)
                found, wanted = e.operands
                if wanted == self.plan.policy.namespace and place is not None and place.pointer.endswith("/match"):
                    steps.append(Step("match", "namespace", bool(e.value), place, found, wanted, note=_OWN_NAMESPACE))
        return steps

    def conditions(self, scope: _Scope) -> list[Step]:
        steps: list[Step] = []
        operands: dict[str, tuple[Any, ...]] = {}
        seen: set[str] = set()
        for e in scope.events:
            place = self.place(e)
            if place is None or _CONDITION.search(place.pointer) is None or place.pointer in seen:
                continue
            at = place.pointer
            if e.kind == "op" or (e.kind == "invoke" and e.name.startswith("cond.")):
                operands[at] = e.operands if len(e.operands) == 2 else (*operands.get(at, ()), *e.operands)[:1]
            elif e.kind in ("set", "tee") and type(e.value) is bool:
                seen.add(at)
                written = self.written(at, place.file)
                written = written if type(written) is dict else {}
                given = operands.get(at, ())
                key = given[0] if given else written.get("key", MISSING)
                value = given[1] if len(given) == 2 else written.get("value", MISSING)
                part = "precondition" if "/preconditions" in relative(at, self.base) else "condition"
                operator = str(written.get("operator", ""))
                note = shown_key(written.get("key"))
                steps.append(Step(part, self.clause(place), e.value, place, key, value, operator, note=note))
        return steps

    def walk(self, e: Event) -> Step:
        place = self.place(e)
        resource, pattern = e.operands
        if e.value is None:
            return Step("pattern", self.clause(place), True, place)
        end = decided(self.imports, resource, pattern, kyverno=_WALKS[e.name])
        if end is None:
            text = e.value.text if type(e.value) is Err else ""
            return Step("pattern", self.clause(place), False, place, note=text)
        if place is not None:
            place = self.deeper(place, end.steps)
        note = end.text if end.code == "pattern" else ""
        if end.code in ("conditional", "global"):
            note = f"the anchor {end.anchor} does not hold"
        elif end.code == "negation":
            note = f"{end.anchor} forbids the key"
        elif end.anchor.startswith("^"):
            note = f"no element satisfies {end.anchor}"
        path = end.path.rstrip("/") or "/"
        return Step("pattern", self.clause(place), False, place, end.found, end.wanted, path=path, note=note)

    def other(self, e: Event) -> Step | None:
        """Pod Security Standards, patches, and what CEL expressions came to."""
        place = self.place(e)
        if e.kind in ("set", "tee") and place is not None and place.pointer.endswith("/list") and type(e.value) is Err:
            return Step("list", self.clause(place), False, place, note=e.value.text)
        if e.kind in ("set", "tee") and place is not None and _EXPRESSION.search(place.pointer):
            if type(e.value) is Err:
                return Step("expression", self.clause(place), False, place, note=e.value.text)
            return Step("expression", self.clause(place), e.value, place) if type(e.value) is bool else None
        if e.kind != "invoke":
            return None
        if e.name == "podsec.evaluate":
            held = e.value is None
            text = e.value.text if type(e.value) is Err else ""
            note = f"{e.operands[1]}, version {e.operands[2]}{': ' if text else ''}{text}"
            return Step("security", self.clause(place), held, place, note=note)
        if e.name.startswith("patch.") and e.name != "patch.diff":
            if type(e.value) is Err:
                return Step("patch", self.clause(place), False, place, path=e.value.path, note=e.value.text)
            return Step("patch", self.clause(place), True, place, note="; ".join(changes(e.operands[0], e.value)))
        return None

    def cell(self, e: Event) -> Step:
        number = self.unit.module.cells[e.operands[0]]
        place = self.unit.place(number, 1 << 30)
        first = self.unit.module.debug.spans[number][:1] if self.unit.module.debug is not None else ()
        if first:
            place = self.unit.place(number, first[0].pc)
        found = _ENTRY.match(place.pointer) if place is not None else None
        entry = self.written(found.group(), place.file) if found is not None and place is not None else None
        name = str(entry["name"]) if type(entry) is dict and "name" in entry else "images"
        if type(e.value) is Err:
            return Step("context", name, False, place, note=e.value.text)
        return Step("context", name, None, place, e.value)

    def element(self, inner: _Scope) -> tuple[str, Place | None]:
        first = next((p for e in inner.events if (p := self.place(e)) is not None), None)
        name = f"element {inner.over['elementIndex']}"
        if first is not None and (loop := re.match(r".*?/foreach/\d+", relative(first.pointer, self.base))):
            loops = re.findall(r"/foreach/\d+", relative(first.pointer, self.base))
            name = f"{dotted(loop.group())} {name}" if len(loops) == 1 else f"{dotted(loops[-1])} {name}"
        return name, first

    # places

    def place(self, e: Event | None) -> Place | None:
        return None if e is None else self.unit.place(e.function, e.pc)

    def clause(self, place: Place | None) -> str:
        """The name of a place within its rule: ``match.any[0].resources.kinds``."""
        return "" if place is None else dotted(relative(place.pointer, self.base))

    def written(self, pointer: str, file: str) -> Any:
        return self.unit.written(pointer, file)

    def deeper(self, place: Place, steps: tuple[str, ...]) -> Place:
        """The place of an element of a pattern that stands at a place."""
        document = self.unit.document(place.pointer, place.file)
        if document is None or not place.pointer:
            return place
        for prefix, moved in _AUTOGEN:
            if self.plan.name.startswith(prefix) and "/foreach" not in place.pointer:
                if steps[: len(moved)] == moved:
                    steps = steps[len(moved) :]
                break
        pointer, node = place.pointer, value_at(document.value, place.pointer)
        for step in steps:
            key: str | None = None
            if type(node) is dict:
                key = step if step in node else next((k for k in node if expands(k, step)), None)
                node = node.get(key) if key is not None else None
            elif type(node) is list and step.isdecimal() and int(step) < len(node):
                key = step
                node = node[int(step)]
            if key is None:
                break
            pointer = f"{pointer}/{escape(key)}"
        return place_of(document, pointer)


def _scopes(events: Iterable[Event]) -> _Scope:
    top = _Scope({})
    stack = [top]
    for e in events:
        if e.kind == "enter" and (type(e.value) is not dict or "elementIndex" not in e.value):
            stack.append(stack[-1])
        elif e.kind == "enter":
            inner = _Scope(e.value)
            stack[-1].inner.append(inner)
            stack.append(inner)
        elif e.kind == "leave" and len(stack) > 1:
            left = stack.pop()
            if left is not stack[-1]:
                left.answer = e.value
        else:
            stack[-1].events.append(e)
    return top


def _mismatch(filters: list[Step]) -> Step | None:
    """The clause for which a rule does not match: of an exclude that holds its last clause, else the one that failed
    in the filter of ``match`` of which most held."""
    groups: dict[str, list[Step]] = {}
    for step in filters:
        found = _FILTER.match(step.place.pointer) if step.place is not None else None
        groups.setdefault(found.group(1) if found is not None else "", []).append(step)
    best: tuple[int, Step] | None = None
    matched = False
    for steps in groups.values():
        if steps[0].part != "match":
            continue
        failed = next((s for s in steps if _broke(s)), None)
        if failed is None:
            matched = True
        elif best is None or steps.index(failed) > best[0]:
            best = (steps.index(failed), failed)
    for steps in groups.values():
        if steps[0].part == "exclude" and all(s.held for s in steps):
            return steps[-1]
    own = next((s for s in filters if s.clause == "namespace" and s.held is False), None)
    if own is not None:
        return own
    if best is not None and not (matched and not groups):
        return best[1]
    return filters[-1] if filters else None


def _broke(step: Step) -> bool:
    inside = step.place is not None and "/excludeResources" in step.place.pointer
    return bool(step.held) if inside else step.held is False


def _last(steps: list[Step], *, held: bool) -> Step | None:
    """The condition that decided a block: in ``any`` the one that held or else the last, in ``all`` the one that did
    not hold or else the last."""
    same = [s for s in steps if s.held is held]
    if not same:
        return steps[-1] if steps else None
    groups = {"any": [s for s in same if _mode(s) == "any"], "all": [s for s in same if _mode(s) != "any"]}
    if held:
        return (groups["any"] or groups["all"])[-1]
    any_held = any(s.held for s in steps if _mode(s) == "any")
    return (groups["any"] if groups["any"] and not any_held else groups["all"] or groups["any"])[-1]


def _mode(step: Step) -> str:
    found = _CONDITION.search(step.place.pointer) if step.place is not None else None
    return (found.group(1) or "all") if found is not None else "all"


def _status(answer: Any) -> Status:
    return answer.status if isinstance(answer, Outcome) else Status.NONE


def _outcome(scope: _Scope) -> str:
    answer = scope.answer
    if type(answer) is Err:
        return "error"
    if not isinstance(answer, Outcome):
        return "changed" if "$resource" in scope.over and answer != scope.over["$resource"] else "left as it is"
    words = {Status.NONE: "passed over", Status.PASS: "passed", Status.FAIL: "failed", Status.SKIP: "skipped"}
    return words.get(answer.status, "error")


def _named(made: Any) -> str:
    parts = [made.get(k) for k in ("kind", "namespace", "name")] if type(made) is dict else []
    return "/".join(str(part) for part in parts if part) or "objects"


def _settled(steps: Iterable[Step]) -> list[Step]:
    """Of the values at the place of an expression the last: those before it are of macros within."""
    found: dict[Any, Step] = {}
    for number, step in enumerate(steps):
        at = step.place.pointer if step.part == "expression" and step.place is not None else number
        found.pop(at, None)
        found[at] = step
    return list(found.values())


def _once(cells: Iterable[Step]) -> Iterator[Step]:
    """Context entries are read many times and told of once."""
    seen: set[str] = set()
    for step in cells:
        if step.clause not in seen:
            seen.add(step.clause)
            yield step
