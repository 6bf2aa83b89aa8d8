"""Tier 2: verified bytecode to Python functions. Same results, same fuel, same host calls as tier 1, several times
faster.

:func:`translate` gives a program whose functions are made by ``vm.translator`` when they are first run, or taken from
``vm.kept_code`` when an earlier process has made them. They see a globals dict without builtins, in which constants,
predicates, intrinsics and one another are bound. ``runtime.bundles`` calls it."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Iterable
from threading import Lock
from types import CodeType, FunctionType
from typing import Any

from vm import names
from vm.disasm import line_of
from vm.fuel import exhausted
from vm.host import Execution, Meter, OutOfFuel, Program
from vm.kept_code import KeptCode
from vm.translator import GLOBALS, SCOPE, Translator
from vm.verify import VerifiedModule


def translate(
    m: VerifiedModule,
    *,
    meanwhile: Program | None = None,
    later: Callable[[Callable[[], object]], None] | None = None,
    kept: KeptCode | None = None,
) -> Program:
    """The program of a module on tier 2. Functions are generated when they are first run.

    With ``meanwhile`` and ``later``, a function that is run for the second time is handed to ``later`` to be generated,
    and ``meanwhile`` (tier 1) answers until that is done. What is ``kept`` of this very module is there at once.
    """
    return _Generated(m, meanwhile, later, kept)


class _Generated:
    def __init__(
        self,
        m: VerifiedModule,
        meanwhile: Program | None,
        later: Callable[[Callable[[], object]], None] | None,
        kept: KeptCode | None,
    ) -> None:
        self._meanwhile = meanwhile
        self._later = later
        self._kept = kept
        self._runs = [0] * len(m.functions)
        self._m = m
        self._globals = dict(GLOBALS)
        self._direct: list[Callable[..., Any] | None] = [None] * len(m.functions)
        self._lock = Lock()
        self._shown: set[str] = set()
        weakref.finalize(m, _forget, self._shown)

    def run(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        entry = self._direct[fn]
        if entry is None:
            if self._m.functions[fn].may_suspend:
                raise ValueError(f"function {fn} may suspend")
            if self._meanwhile is not None and self._later is not None and not self._is_kept(fn):
                self._runs[fn] += 1
                if self._runs[fn] == 2:
                    self._later(lambda: self._prepare(fn))
                return self._meanwhile.run(fn, root, meter)
            entry = self._prepare(fn)
        try:
            return entry(root, meter, {})
        except OutOfFuel:
            return exhausted(self._m.functions[fn].result, meter)

    def start(self, fn: int, root: dict[str, Any], meter: Meter) -> Execution:
        entry = self._entry(fn)
        function = self._m.functions[fn]
        cells = {SCOPE: function.scope}
        try:
            if function.may_suspend:
                return (yield from entry(root, meter, cells))
            return entry(root, meter, cells)
        except OutOfFuel:
            return exhausted(function.result, meter)

    def _prepare(self, fn: int) -> Callable[..., Any]:
        entry = self._direct[fn] = self._entry(fn)
        return entry

    def source(self, fn: int) -> str:
        """The Python source of a function, for people."""
        return Translator(self._m, self._m.functions[fn], {}).source()[0]

    def _entry(self, fn: int) -> Callable[..., Any]:
        """Generates a function and all it calls."""
        if self._m.functions[fn].params:
            raise ValueError("a function with parameters is not started from outside")
        with self._lock:  # nobody may run a function whose callees are not there yet
            todo = [fn]
            while todo:
                n = todo.pop()
                if f"f{n}" not in self._globals:
                    self._globals[f"f{n}"] = self._generate(n, todo)
        entry: Callable[..., Any] = self._globals[f"f{fn}"]
        return entry

    def _is_kept(self, fn: int) -> bool:
        """Whether a function is kept. Those that it calls were put there with it, or are generated at once."""
        return self._kept is not None and f"f{fn}" in self._kept

    def _generate(self, n: int, todo: list[int]) -> Callable[..., Any]:
        body = self._kept.get(f"f{n}") if self._kept is not None else None
        if type(body) is CodeType:
            self._bind(_names(body), todo)
        else:
            body = self._compiled(n, todo)
        filename = body.co_filename
        self._shown.add(filename)
        linecache.cache[filename] = (0, None, _Listing(self._m, n), filename)
        return FunctionType(body, self._globals, f"f{n}")

    def _compiled(self, n: int, todo: list[int]) -> CodeType:
        function = self._m.functions[n]
        translator = Translator(self._m, function, self._globals)
        source, _ = translator.source()
        shown = "".join(c if c.isprintable() else "?" for c in function.name)
        filename = f"<thesmos:{shown}@{self._m.digest[:4].hex()}>"
        code = compile(source, filename, "exec", dont_inherit=True, optimize=2)
        (body,) = (c for c in code.co_consts if isinstance(c, CodeType))
        todo.extend(translator.calls)
        if self._kept is not None:
            self._kept.put(f"f{n}", body)
        return body

    def _bind(self, wanted: Iterable[str], todo: list[int]) -> None:
        """Binds what kept code mentions, as the translator does for code that it writes."""
        for name in wanted:
            if name in self._globals:
                continue
            if names.is_bound(name):
                self._globals[name] = names.value(self._m, name)
            elif name[0] == "f" and name[1:].isdecimal():
                todo.append(int(name[1:]))


def _names(code: CodeType) -> Iterable[str]:
    """Names of globals that code mentions, and of attributes, which are none of those that are bound."""
    yield from code.co_names
    for inner in code.co_consts:
        if type(inner) is CodeType:
            yield from _names(inner)


def _forget(shown: set[str]) -> None:
    for filename in shown:
        linecache.cache.pop(filename, None)


class _Listing(list[str]):
    """What ``linecache`` shows for a generated function: the instruction behind each line, spelled out when asked
    for."""

    def __init__(self, m: VerifiedModule, number: int) -> None:
        super().__init__()
        self._m = weakref.ref(m)
        self._number = number
        self._known: list[int] | None = None

    @property
    def _origins(self) -> list[int]:
        """For each line the instruction that it came from. The function is translated once more for that: tracebacks
        are rare, and the lists would be a good part of what a function holds."""
        if self._known is None:
            m = self._m()
            self._known = [] if m is None else Translator(m, m.functions[self._number], {}).source()[1]
        return self._known

    def __len__(self) -> int:
        return len(self._origins)

    def __getitem__(self, i: Any) -> Any:
        m = self._m()
        if m is None or isinstance(i, slice):
            return [] if isinstance(i, slice) else ""
        fn = m.functions[self._number]
        at = self._origins[i]
        return f"{line_of(m, fn, at) if at >= 0 else f'function {fn.name}'}\n"
