"""Lowers policy values that hold ``{{ }}`` variables and ``$( )`` references to IR (semantics §6).

Called by the front ends for patterns, conditions, messages and patches. Every lowering is one expression of kind V
that answers the finished value, or an ``Err`` whose text is what the reference says when a variable fails.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from compiler.frontends.jmes import lower as jmes
from compiler.frontends.jmes.ast import Call, Current, Field, Index, Node
from compiler.frontends.jmes.check import check, constant_problems, root_names
from compiler.frontends.jmes.parse import parse
from compiler.frontends.template import references
from compiler.frontends.template.scope import Scope
from compiler.frontends.template.split import LONGEST_KEPT, Variable, has_variables, open_braces, split
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from compiler.source import pointer as pointer_of
from grammar.errors import SyntaxProblem
from vm.intrinsics.context import mentions

__all__ = [
    "has_variables",
    "lower_pass",
    "lower_query",
    "lower_text",
    "lower_value",
    "put_in_again",
    "query_at_run_time",
]

_ROOT: Final = ir.Op("j_root")
_OPERATION: Final = ir.Load(("$operation",))
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OF_LOOPS: Final = re.compile(r"element(Index)?\d*\Z")
_CODES: Final = {"name": "T1102", "arity": "T1103", "type": "T1105"}
_ERRORS: Final = {"name": "unknown_function", "arity": "arity", "type": "type"}


def lower_value(value: Any, scope: Scope, pointer: str, *, document: Any = None, path: str = "") -> ir.Expr:
    """A whole value: every text leaf and every map key is substituted.

    ``pointer`` is where the value stands in the policy (for diagnostics). ``path`` is where it stands in the
    document that counts as substituted at once (``""``, or ``/mutate/patchStrategicMerge`` within a rule) and
    ``document`` that document, which ``$( )`` references look into; by default the value itself. A value without
    variables becomes a ``Const``. At run time the answer is the value with everything put in, or
    ``Err("substitution", …)`` of the first variable that fails: ``failed to resolve X at path P: JMESPath query
    failed: Unknown key "k" in path``.
    """

    def report(at: str, what: str) -> None:
        scope.error("T1106", pointer + at, what)

    resolved = references.resolve(value, value if document is None else document, path, report)
    return _Value(scope).lower(resolved, path, pointer)


def lower_text(text: str, scope: Scope, pointer: str, *, path: str = "") -> ir.Expr:
    """One text. The answer is a text, unless the whole text is one variable, which keeps the type of its value; or
    an Err."""
    return lower_value(text, scope, pointer, path=path)


def lower_query(query: str, scope: Scope, pointer: str, *, offset: int = 0) -> ir.Expr:
    """One JMESPath query without braces. The answer is its value or an Err (``not_found`` included, not wrapped).

    ``offset`` is where the query starts in the text at ``pointer``. A query that does not parse is reported there,
    and the expression then is an error constant.
    """
    return _query(query, scope, pointer, offset).expr


def lower_pass(text: str, scope: Scope) -> ir.Expr:
    """One pass over a text formed at run time: its variables put in, without looking at the result again."""
    return _Value(scope, again=False).text(text, "", "").expr


def put_in_again(value: ir.Expr, scope: Scope, plainly: str = "text.substitute") -> ir.Expr:
    """The value of a text formed at run time, with the variables in it put in; ``plainly`` is the intrinsic that does
    it where there are no context entries."""
    if not scope.entries:
        return ir.Invoke(plainly, (value, _ROOT))
    return ir.Call(at_run_time(scope, "ctx.again"), (value,))


def query_at_run_time(text: ir.Expr, scope: Scope) -> ir.Expr:
    """The value of a query that is formed at run time, on the root and the context entries of the scope."""
    return ir.Call(at_run_time(scope, "ctx.query"), (text,))


def at_run_time(scope: Scope, intrinsic: str) -> str:
    """The name of a function of one value that applies ``ctx.again`` or ``ctx.query``, and loads each context entry
    that a text formed at run time turns out to mention.

    Each turn of the loop loads one more entry, so that one more turn than there are entries is enough.
    """
    cells = {entry.name: entry.cell for entry in scope.entries}
    last = scope.entries[-1].cell if scope.entries else f"{scope.builder.name}.none"
    name = f"{last}.{intrinsic.partition('.')[2]}"
    if any(fn.name == name for fn in scope.functions):
        return name
    b = FunctionBuilder(name, params=[("value", "V")], result="V", policy=scope.builder.policy)
    out = ir.Local(b.fresh("V", "out"))
    values: ir.Expr = ir.Op("new_list")
    loads: tuple[ir.Stmt, ...] = ()
    for entry, cell in cells.items():
        loaded = b.let(ir.Op("missing"), "V", "loaded")
        values = ir.Op("append", (values, loaded))
        load = ir.Set(loaded.name, ir.Op("cell", (), (cell,)))
        loads = (ir.If(ir.Op("equal", (ir.Invoke("pat.text", (out,)), ir.Const(entry))), (load,), loads),)
    answer = ir.Invoke(intrinsic, (ir.Local("value"), _ROOT, ir.Const(list(cells)), values))
    again = ir.If(ir.Op("err_code", (out,), ("pending",)), loads, (ir.Return(out),))
    b.emit(ir.Set(out.name, ir.Const(None)))
    b.emit(ir.Each(b.fresh("V", "turn"), ir.Const(list(range(len(cells) + 1))), (ir.Set(out.name, answer), again)))
    b.ret(out)
    scope.functions.append(b.function())
    return name


def parsed(query: str) -> Node | SyntaxProblem:
    """The checked tree of a query, or what is wrong with it."""
    return _parsed(query) if len(query) <= LONGEST_KEPT else _parsed.__wrapped__(query)


@lru_cache(maxsize=2048)
def _parsed(query: str) -> Node | SyntaxProblem:
    try:
        node = parse(query)
        check(node)
    except SyntaxProblem as problem:
        return problem.with_traceback(None)
    return node


def _query(query: str, scope: Scope, pointer: str, offset: int) -> jmes.Low:
    node = parsed(query)
    if isinstance(node, SyntaxProblem):
        problem = node.moved(offset)
        expected = " or ".join(problem.expected)
        at = (problem.start, max(problem.end, problem.start + 1))
        message = problem.message if query else "the query is empty"
        scope.error(_CODES.get(problem.code, "T1101"), pointer, message, at=at, expected=expected, help=problem.hint)
        code = _ERRORS.get(problem.code, "syntax")
        cause = problem.message if code != "syntax" else f"incorrect query {query}: {problem.message}"
        return jmes.Low(jmes.error(code, cause if query else "invalid query (nil)"), False, True)
    if scope.reporter is not None:
        _look_over(node, scope, pointer, offset)
    low = jmes.lower(node, scope)
    return _loaded(query, node, low, scope) if scope.entries else low


def _loaded(query: str, node: Node, low: jmes.Low, scope: Scope) -> jmes.Low:
    """The value of a query once every context entry that it mentions is loaded: one that fails is the result, also
    where the query would not have read it (semantics §8)."""
    mentioned = [entry for entry in scope.entries if mentions(query, entry.name)]
    read = _chain_root(node)
    if read is not None:
        last = next((entry for entry in reversed(scope.entries) if entry.name == read), None)
        mentioned = [entry for entry in mentioned if entry is not last]
        if last is not None:
            low = jmes.Low(low.expr, low.missing, True)
    else:
        named = {name for name, _ in root_names(node)}
        mentioned = [entry for entry in scope.entries if entry in mentioned or entry.name in named]
    value = low.expr
    for entry in reversed(mentioned):
        local = scope.builder.fresh("V", "entry")
        load = ir.Set(local, ir.Op("cell", (), (entry.cell,)))
        failed = ir.Op("is_err", (ir.Local(local),))
        value = ir.Block((load,), ir.Choose(failed, ir.Local(local), value))
    return jmes.Low(value, low.missing, low.failing or bool(mentioned))


def _chain_root(node: Node) -> str | None:
    """The name that a plain chain of fields and positions begins with; None for any other query."""
    while isinstance(node, Index) or (isinstance(node, Field) and not isinstance(node.of, Current)):
        node = node.of
    return node.name if isinstance(node, Field) else None


def _look_over(node: Node, scope: Scope, pointer: str, offset: int) -> None:
    """Reports constant arguments that can never do, and names that nothing gives."""
    for problem in constant_problems(node):
        at = (problem.start + offset, problem.end + offset)
        scope.error("T1105", pointer, problem.message, at=at, help=problem.hint)
    if scope.roots is None:
        return
    known = scope.roots | set(scope.names)
    for name, (start, end) in root_names(node):
        at = (start + offset, end + offset)
        if not name:
            # Kyverno quirk: "" is a key that is never there, not an empty text; || takes it for null all the same.
            message = '"" is the name of a key, not an empty text'
            scope.warning("T1104", pointer, message, at=at, help="an empty text is ''")
        elif name == "null":
            # Public policies write `|| null`: a key that is never there, so that the answer is null all the same.
            scope.warning("T1104", pointer, "null is the name of a key here", at=at, help="the value null is `null`")
        elif name not in known:
            near = get_close_matches(name, sorted(known), 1)
            names = f"a variable begins with one of {', '.join(sorted(known))}"
            hint = f"did you mean {near[0]}? {names}" if near else names
            if _OF_LOOPS.match(name) and "element" not in known:
                hint = f"{name} is known inside of foreach only"
            # The reference does not look into calls; an argument that is not there is null, and policies live by it.
            tell = scope.warning if isinstance(node, Call) else scope.error
            tell("T1104", pointer, f"unknown variable {name}", at=at, help=hint)
            break


class _Value:
    """Lowers one value. ``again`` says whether results are looked through for further variables."""

    def __init__(self, scope: Scope, *, again: bool = True) -> None:
        self._scope = scope
        self._again = again
        self._body: list[ir.Stmt] = []
        self._checks: list[ir.Local] = []

    def lower(self, value: Any, path: str, pointer: str) -> ir.Expr:
        if isinstance(value, str):
            return self.text(value, path, pointer).expr
        built = self._build(value, path, pointer)
        if not self._checks:
            return _block(self._body, built)
        fault: ir.Expr = self._checks[0]
        if len(self._checks) > 1:
            name = self._scope.builder.fresh("V", "fault")
            self._body.append(ir.Set(name, ir.Const(None)))
            for c in reversed(self._checks):
                self._body.append(ir.If(ir.Op("is_err", (c,)), (ir.Set(name, c),)))
            fault = ir.Local(name)
        return _block(self._body, ir.Choose(ir.Op("is_err", (fault,)), fault, built))

    def _build(self, value: Any, path: str, pointer: str) -> ir.Expr:
        """The finished value; statements that compute its variable parts go before it."""
        if isinstance(value, str):
            low = self.text(value, path, pointer)
            return low.expr if isinstance(low.expr, ir.Const) else self._part(low)
        if isinstance(value, list):
            parts = [self._build(x, f"{path}/{i}", f"{pointer}/{i}") for i, x in enumerate(value)]
            if all(isinstance(p, ir.Const) for p in parts):
                return ir.Const([p.value for p in parts if isinstance(p, ir.Const)])
            out: ir.Expr = ir.Op("new_list")
            for p in parts:
                out = ir.Op("append", (out, p))
            return out
        if isinstance(value, dict):
            return self._map(value, path, pointer)
        return ir.Const(value)

    def _map(self, value: dict[str, Any], path: str, pointer: str) -> ir.Expr:
        entries: list[tuple[ir.Expr, ir.Expr]] = []
        for k, x in value.items():
            at = f"{pointer}{pointer_of(k)}"
            low = self.text(k, path, at)
            key = low.expr
            if not isinstance(key, ir.Const):
                key = self._part(jmes.Low(ir.Invoke("text.key", (key, ir.Const(k))), False, True))
            entries.append((key, self._build(x, f"{path}/{references.escape_key(k)}", at)))
        if all(isinstance(k, ir.Const) and isinstance(x, ir.Const) for k, x in entries):
            return ir.Const(
                {k.value: x.value for k, x in entries if isinstance(k, ir.Const) and isinstance(x, ir.Const)}
            )
        out: ir.Expr = ir.Op("new_map")
        for key, x in entries:
            if isinstance(key, ir.Const):
                out = ir.Op("put", (out, x), (key.value,))
            else:
                out = ir.Op("put_key", (out, ir.Op("as_text", (key,)), x))
        return out

    def _part(self, low: jmes.Low) -> ir.Local:
        name = self._scope.builder.fresh("V", "part")
        self._body.append(ir.Set(name, low.expr))
        if low.missing or low.failing:
            self._checks.append(ir.Local(name))
        return ir.Local(name)

    # One text

    def text(self, text: str, path: str, pointer: str) -> jmes.Low:
        pieces = split(text)
        variables = [p for p in pieces if isinstance(p, Variable)]
        unclosed = open_braces(text) if "{{" in text and self._scope.reporter is not None else None
        if unclosed is not None:
            self._scope.warning("T1107", pointer, "'{{' is not closed and stays as it is", at=(unclosed, unclosed + 2))
        if not variables:
            return jmes.Low(ir.Const(text.replace("\\{{", "{{")))
        if len(pieces) == 1:
            return self._whole(variables[0], path, pointer)
        return self._joined(pieces, path, pointer)

    def _whole(self, v: Variable, path: str, pointer: str) -> jmes.Low:
        """A text that is one variable: its value as it is; variables within a list or map are substituted in turn."""
        low = self._variable(v, path, pointer)
        if not self._again or isinstance(low.expr, ir.Const):
            return low
        body: list[ir.Stmt] = []
        t = self._local(low.expr, body)
        holds = ir.Or((ir.Op("is_map", (t,)), ir.Op("is_list", (t,))))
        value = ir.Choose(holds, put_in_again(t, self._scope, "text.deep"), t)
        return jmes.Low(_block(body, value), False, True)

    def _joined(self, pieces: tuple[str | Variable, ...], path: str, pointer: str) -> jmes.Low:
        body: list[ir.Stmt] = []
        checks: list[ir.Expr] = []
        texts: list[ir.Expr] = []
        for p in pieces:
            if isinstance(p, str):
                texts.append(ir.Const(p))
                continue
            low = self._variable(p, path, pointer)
            if p.shallow:
                low = jmes.Low(ir.Invoke("text.shallow", (low.expr,)), False, True)
            t = self._local(low.expr, body)
            if low.missing or low.failing:
                checks.append(t)
            texts.append(ir.Op("to_text", (t,)))
        whole: ir.Expr = ir.Op("concat", tuple(texts), (len(texts),))
        last = next(p for p in reversed(pieces) if isinstance(p, Variable))
        if self._again:
            # A shallow variable at the end of a pass ends the passes (Kyverno quirk).
            whole = ir.Invoke("text.unescape", (whole,)) if last.shallow else put_in_again(whole, self._scope)
        for c in reversed(checks):
            whole = ir.Choose(ir.Op("is_err", (c,)), c, whole)
        return jmes.Low(_block(body, whole), False, bool(checks) or self._again)

    def _variable(self, v: Variable, path: str, pointer: str) -> jmes.Low:
        """The value of a variable; an error has the reference's words."""
        query = v.body
        if query == "@":
            query = here(path, self._scope.here)
        low = _query(query, self._scope, pointer, v.offset)
        if not (low.missing or low.failing):
            return low
        body: list[ir.Stmt] = []
        t = self._local(low.expr, body)
        words = ir.Invoke("text.resolved", (t, ir.Const(query), ir.Const(path), _OPERATION))
        return jmes.Low(_block(body, ir.Choose(ir.Op("is_err", (t,)), words, t)), False, True)

    def _local(self, e: ir.Expr, body: list[ir.Stmt]) -> ir.Expr:
        if isinstance(e, (ir.Local, ir.Const)):
            return e
        name = self._scope.builder.fresh("V", "v")
        body.append(ir.Set(name, e))
        return ir.Local(name)


def here(path: str, root: str = "request.object") -> str:
    """The query that ``{{ @ }}`` stands for at a document path: what comes after the nearest ``foreach``, two more
    elements left out, in the object of the request or the target (semantics §6.3)."""
    parts = [p.replace("\0", "/") for p in path.replace("\\/", "\0").split("/")[1:]]
    if "foreach" in parts:
        parts = parts[len(parts) - parts[::-1].index("foreach") :]
    out = [root]
    for p in parts[2:]:
        if p.isdigit():
            out.append(f"[{p}]")
        else:
            quoted = p.replace("\\", "\\\\").replace('"', '\\"')
            out.append(f".{p}" if _NAME.match(p) else f'."{quoted}"')
    return "".join(out)


def _block(body: list[ir.Stmt], value: ir.Expr) -> ir.Expr:
    return ir.Block(tuple(body), value) if body else value
