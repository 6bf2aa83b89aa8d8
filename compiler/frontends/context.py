"""Registers the entries of a ``context``: each becomes a function of role cell, computed when a query first mentions
its name (semantics §8).

Called by :mod:`compiler.lower` before the preconditions of a rule, and by the front ends of loops and targets. An entry
sees those declared before it; of two of one name the later is the value, computed from the former. A value that cannot
be had is ``Err context``, in the reference's words.

What an entry asks of the outside is an ``await`` with one of these payloads, everything in them resolved:

===============  ========================================================================================
``configmap``    ``name``, ``namespace`` (empty: the host's default)
``apicall``      ``urlPath`` or ``service`` (``url``, ``headers``, ``caBundle``); ``method``; ``data``, a map
``globalcontext``  ``name``, ``projection`` (empty: the entry itself)
``imagedata``    ``reference``; ``credentials`` where the entry has some
===============  ========================================================================================

and under ``for`` who asks: ``entry``, ``rule``, within a loop ``element``, its position, and in policies that the host
must look at first ``given``, the value that a values file has for the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from compiler.frontends.jmes import lower as jmes
from compiler.frontends.rule import RuleFrame, concat
from compiler.frontends.template import (
    Entry,
    Scope,
    has_variables,
    lower_query,
    lower_text,
    lower_value,
    query_at_run_time,
)
from compiler.frontends.template.lower import parsed
from compiler.frontends.template.split import Variable, split
from compiler.ir.build import FunctionBuilder, all_of
from compiler.ir.ops import Choose, Const, Do, Expr, If, Invoke, Load, Local, Op, Return
from compiler.schema.model import ContextEntry
from grammar.errors import SyntaxProblem
from vm.host import HOST_CALLS
from vm.intrinsics.context import mentions
from vm.intrinsics.text import json_text

_NOTHING: Final = Const(None)


def register(frame: RuleFrame, entries: Sequence[ContextEntry], *, loop: bool = False) -> None:
    """Makes the entries known to queries that are lowered with the frame's scope from now on. ``loop``: they are those
    of an element, so that their values last as long as it does, and do not add up over the elements."""
    for entry in entries:
        scope = frame.scope
        cell = f"{scope.builder.name}.c{len(scope.entries)}"
        builder = FunctionBuilder(cell, result="V", policy=scope.builder.policy, role="cell")
        lowering = _Entry(frame, entry, builder, scope.inside(builder), loop)
        lowering.lower()
        scope.functions.append(builder.function())
        frame.scope = replace(
            scope,
            roots=None if scope.roots is None else scope.roots | {entry.name},
            names={**scope.names, entry.name: Op("cell", (), (cell,))},
            entries=(*scope.entries, Entry(entry.name, cell)),
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry on its way to the function ``b``."""

    frame: RuleFrame
    entry: ContextEntry
    b: FunctionBuilder
    scope: Scope
    loop: bool

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def at(self) -> str:
        return f"{self.entry.pointer}/{self.entry.kind}"

    def lower(self) -> None:
        self.frame.places.add(self.at)
        match self.entry.kind:
            case "variable":
                self.variable()
            case "configMap":
                self.given()
                self.config_map()
            case "apiCall":
                self.given()
                self.api_call()
            case "globalReference":
                self.given()
                self.global_reference()
            case "imageRegistry":
                self.given()
                self.image_registry()

    @property
    def guarded(self) -> bool:
        """Whether it shows only at run time that a namespaced policy stays in its namespace: then a value that is given
        goes through the host, which asks that first."""
        body = self.entry.body
        return self.frame.policy.kind == "Policy" and has_variables([body.get("namespace"), body.get("urlPath")])

    @property
    def texts(self) -> Scope:
        """What variables in texts of the entry may name. Kyverno quirk: no target in the context of a rule that has
        targets, though a query without braces may name it."""
        scope, rule = self.scope, self.frame.rule
        if scope.roots is None or rule.mutate is None or scope.here == "target":
            return scope
        return replace(scope, roots=scope.roots - {"target"})

    # Small shapes

    def returned(self, value: Expr) -> None:
        """Ends with a value, counted against the limit of the context."""
        self.b.ret(Invoke("ctx.sized", (value, Const(self.name), Const(self.loop))), self.at)

    def unless_err(self, value: Expr, words: str | Expr, hint: str = "v") -> Expr:
        """The value; when it is an error the entry ends as that error, with words before it."""
        if isinstance(value, Const):
            return value
        local = self.b.let(value, "V", hint, self.at)
        said = words if not isinstance(words, str) else Const(words)
        self.b.ret_if(Op("is_err", (local,)), Invoke("ctx.failed", (local, said)), self.at)
        return local

    def text(self, field: str, value: Any, words: str) -> Expr:
        """A field of the entry with its variables put in."""
        return self.unless_err(lower_value(value, self.texts, f"{self.at}/{field}"), words, field.partition("/")[0])

    def given(self) -> None:
        """What a values file says under the entry's name goes before asking the outside; in a cluster there is none."""
        if self.guarded:
            return
        found = self.b.let(Load((self.name,)), "V", "given")
        self.b.ret_if(Op("not", (Op("is_missing", (found,)),)), found, self.at)

    def asked(self, kind: str, **payload: Expr) -> Expr:
        """The answer of the host."""
        who: dict[str, Expr] = {"entry": Const(self.name), "rule": Const(self.frame.name)}
        if self.guarded:
            who["given"] = Op("absent_null", (Load((self.name,)),))
        if self.loop:
            who["element"] = Op("absent_null", (Load(("elementIndex",)),))
        return Op("await", (made_map({"for": made_map(who), **payload}),), (HOST_CALLS.index(kind),))

    def searched(self, value: Expr, words: Callable[[Expr], Expr]) -> Expr:
        """The value, or what the entry's ``jmesPath`` makes of it."""
        query = self.entry.body.get("jmesPath")
        if not query:
            return value
        return self.unless_err(self.search(query, value), words(Const(query)), "found")

    def search(self, query: str, value: Expr) -> Expr:
        """What a query finds in a value; an error is not worded yet."""
        pointer = f"{self.at}/jmesPath"
        if has_variables(query):
            path = self.unless_err(lower_text(query, self.texts, pointer), self.no_substitute(query), "path")
            return Invoke("ctx.search", (path, value))
        node = parsed(query)
        if isinstance(node, SyntaxProblem):
            return lower_query(query, self.scope, pointer)
        lower_query(query, replace(self.scope, roots=None, names={}, entries=()), pointer)
        local = value if isinstance(value, Local) else self.b.let(value, "V", "document")
        return jmes.lower_on(node, self.scope, local).expr

    def no_substitute(self, text: Any) -> str:
        shown = text if isinstance(text, str) else json_text(text)
        return f"failed to substitute variables in context entry {self.name} {shown}: "

    # Kinds

    def variable(self) -> None:
        body = self.entry.body
        query, written, default = body.get("jmesPath"), body.get("value"), body.get("default")
        pointer = f"{self.at}/jmesPath"
        path: Expr = Const(query or "")
        if query and has_variables(query):
            path = self.text("jmesPath", query, self.no_substitute(query))
            not_text = Op("not", (Op("is_text", (path,)),))
            words = f"jmespath value must be a string {self.name} {query}: <nil>"
            self.b.ret_if(not_text, jmes.error("context", words), pointer)
        fallback: Expr = _NOTHING
        if default is not None:
            # Kyverno quirk: the default is substituted first, so that one that cannot be is an error in any case.
            fallback = self.text("default", default, self.no_substitute(default))
        failed = concat(Const("failed to apply jmespath "), Op("as_text", (path,)), Const(" to variable <nil>: "))
        output = fallback
        if written is not None:
            output = self.text("value", written, self.no_substitute(written))
            if query:
                known = isinstance(path, Const)
                found = self.search(query, output) if known else Invoke("ctx.search", (path, output))
                output = self.or_default(found, fallback, failed)
        elif query:
            if isinstance(path, Const):
                found = lower_query(query, self.scope, pointer)
            else:
                found = query_at_run_time(path, self.scope)
            found = Invoke("ctx.queried", (found,))
            output = self.or_default(found, fallback, failed, also_null=True)
        nothing = f"failed to add context entry for variable {self.name} since it evaluated to nil"
        value = output if isinstance(output, (Const, Local)) else self.b.let(output, "V", "output")
        self.b.ret_if(Op("is_absent", (value,)), jmes.error("context", nothing), self.at)
        self.returned(value)

    def or_default(self, found: Expr, fallback: Expr, words: Expr, *, also_null: bool = False) -> Expr:
        """The value found. An error falls back to the default, if there is one; for a query on the context null too."""
        local = self.b.let(found, "V", "found", self.at)
        self.b.ret_if(Op("err_code", (local,), ("later",)), local, self.at)
        failed = Op("is_err", (local,))
        if isinstance(fallback, Const) and fallback.value is None:
            self.b.ret_if(failed, Invoke("ctx.failed", (local, words)), self.at)
            return local
        nothing = If(Op("is_absent", (fallback,)), (Return(Invoke("ctx.failed", (local, words)), self.at),))
        self.b.emit(If(failed, (nothing,), (), self.at))
        found = Choose(Op("is_absent", (local,)), fallback, local) if also_null else local
        return Choose(failed, fallback, found)

    def config_map(self) -> None:
        body = self.entry.body
        begin = f"failed to retrieve config map for context entry {self.name}: "
        fields = {}
        for key in ("name", "namespace"):
            raw = body.get(key) or ""
            words = f"{begin}failed to substitute variables in context {self.name} configMap.{key} {raw}: "
            fields[key] = self.text(key, raw, words)
        self.returned(self.unless_err(self.asked("configmap", **fields), begin, "found"))

    def api_call(self) -> None:
        body = self.entry.body
        url, service = body.get("urlPath"), body.get("service")
        words = "failed to fetch data for APICall: " + self.no_substitute(url or "")
        payload: dict[str, Expr] = {"method": Const(body.get("method") or "GET")}
        if url:
            payload["urlPath"] = self.text("urlPath", url, words)
        else:
            payload["service"] = self.text("service", service or {}, words)
        data = body.get("data")
        if data:
            payload["data"] = made_map(
                {
                    pair.get("key") or "": self.text(f"data/{i}/value", pair.get("value"), words)
                    for i, pair in enumerate(data)
                }
            )
        answer = self.b.let(self.asked("apicall", **payload), "V", "answer", self.at)
        default = body.get("default")
        if default is not None:
            # The default stands for the whole: the query is not applied to it. It does not hide that nobody was asked.
            self.b.ret_if(
                all_of(
                    [Op("is_err", (answer,))]
                    + [Op("not", (Op("err_code", (answer,), (code,)),)) for code in ("unsupplied", "later")]
                ),
                Invoke("ctx.sized", (Const(default), Const(self.name), Const(self.loop))),
                self.at,
            )
        fetched = self.unless_err(answer, "failed to fetch data for APICall: ")
        self.returned(
            self.searched(
                fetched,
                lambda query: concat(
                    Const("failed to store data for APICall: failed to apply JMESPath "),
                    query,
                    Const(f" for context entry {self.name}: "),
                ),
            )
        )

    def global_reference(self) -> None:
        body = self.entry.body
        begin = f"failed to marshal APICall data for context entry {self.name}: "
        name = self.text("name", body.get("name") or "", begin)
        found = self.unless_err(self.asked("globalcontext", name=name), begin, "found")
        self.returned(
            self.searched(
                found,
                lambda query: concat(
                    Const(f"{begin}failed to apply JMESPath "), query, Const(f" for context entry {self.name}: ")
                ),
            )
        )

    def image_registry(self) -> None:
        body = self.entry.body
        raw = body.get("reference") or ""
        reference = self.text("reference", raw, self.no_substitute(raw))
        if not isinstance(reference, Const):
            words = concat(
                Const("invalid image reference "),
                Op("to_text", (reference,)),
                Const(", image reference must be a string"),
            )
            said = Invoke("jmes.error", (Const("context"), words))
            self.b.ret_if(Op("not", (Op("is_text", (reference,)),)), said, self.at)
        payload: dict[str, Expr] = {"reference": reference}
        if body.get("imageRegistryCredentials"):
            payload["credentials"] = Const(body["imageRegistryCredentials"])
        found = self.unless_err(self.asked("imagedata", **payload), "", "found")
        self.returned(
            self.searched(
                found,
                lambda query: concat(
                    Const("failed to apply JMESPath ("),
                    query,
                    Const(f") results to context entry {self.name}, error: "),
                ),
            )
        )


def made_map(parts: Mapping[str, Expr]) -> Expr:
    """A map of computed parts."""
    if all(isinstance(part, Const) for part in parts.values()):
        return Const({key: part.value for key, part in parts.items() if isinstance(part, Const)})
    out: Expr = Op("new_map")
    for key, part in parts.items():
        out = Op("put", (out, part), (key,))
    return out


def load_certain(frame: RuleFrame) -> None:
    """Emits the load of the entries that ask the outside and that the rule is certain to need, where there are several:
    in the webhook they are asked together then, instead of one after another.

    Certain is what the first condition mentions, or a pattern or mutation without one: all their variables are put in.
    """
    outside = {entry.name for entry in frame.rule.context if entry.kind != "variable"}
    if len(outside) < 2:
        return
    bodies = [piece.body for text in texts_of(_certain(frame)) for piece in split(text) if isinstance(piece, Variable)]
    needed = {
        entry.name: entry.cell
        for entry in frame.scope.entries
        if entry.name in outside and any(mentions(body, entry.name) for body in bodies)
    }
    if len(needed) > 1:
        for cell in needed.values():
            frame.builder.emit(Do(Op("cell", (), (cell,)), frame.at("context")))


def _certain(frame: RuleFrame) -> Any:
    """The part of the rule whose variables are put in first, in any case."""
    rule = frame.rule
    if rule.preconditions is not None:
        return _first_condition(rule.preconditions)
    if rule.validate is not None:
        validate = rule.validate
        if validate.deny is not None:
            return _first_condition(validate.deny.conditions)
        return validate.pattern if validate.pattern is not None else validate.any_pattern
    if rule.mutate is not None:
        return [rule.mutate.patch_strategic_merge, rule.mutate.patches_json6902]
    return None


def _first_condition(block: Any) -> Any:
    groups = [block] if type(block) is list else [block.get("any"), block.get("all")] if type(block) is dict else []
    first = next((group[0] for group in groups if type(group) is list and group), None)
    return [first.get("key"), first.get("value")] if type(first) is dict else None


def texts_of(value: Any) -> Iterator[str]:
    """Every text of a JSON value, keys included."""
    stack = [value]
    while stack:
        x = stack.pop()
        if type(x) is str:
            yield x
        elif type(x) is dict:
            stack.extend(x)
            stack.extend(x.values())
        elif type(x) is list:
            stack.extend(x)
