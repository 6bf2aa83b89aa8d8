"""Writes checks of many rules as the source of one Python function, for ``vm.fused``.

Values that several checks there want get names at its head; checks of
one text against many patterns become one look-up, since a cluster has few distinct images and amounts; fields that
single rules ask about are looked for together. The source holds no text of a policy: constants, patterns, intrinsics
and masks are bound in the globals, as in ``vm.translator``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vm.decisions import ALLOWANCE, LONGEST, Fork
from vm.expressions import KINDS, SIZED_KINDS, Expr, Kinds, Table, of_value
from vm.fuel import CHUNK
from vm.fused_names import LISTS, TEXTS, Recipe
from vm.fused_scopes import Place, Scope, once, parts, twice
from vm.isa import BY_NAME
from vm.leaf_code import inline
from vm.values import MISSING

_FREE: Final = (1 << CHUNK) - 1
_FEW: Final = 3
"""Patterns of one value from which on what they said of a text is kept."""
_TYPE: Final = {"map": "dict", "list": "list", "text": "str", "err": "Err"}
_SINGLE: Final = {"true": "True", "false": "False", "null": "None", "missing": "MISSING"}


class Writer:
    """Writes one function; ``recipes`` are those of the names that the source mentions. ``lent`` gives the number of a
    rule by the id of the imports of its module."""

    def __init__(self, table: Table, lent: Mapping[int, int]) -> None:
        self.t = table
        self.lent = lent
        self.recipes: dict[str, Recipe] = {}
        self.lines: list[str] = []
        self.count = 0
        self.bound: dict[Any, str] = {}
        self.lengths: dict[str, int] = {}
        """How long lists can be, by name, whose length was asked where they were made."""
        self.passed: set[Expr] = set()
        """Lists that were never there, since another was made at once: only who does want one makes it."""

    def function(self, scope: Scope, maps: tuple[Expr, ...], guards: list[tuple[Expr, Expr]], sure: int) -> str:
        """The source. Where one of ``maps`` is none, or the two of a guard are not the same, no rule of ``sure`` is
        sure."""
        self.line(0, "def fused(root, meter):")
        at = Place(1, {}, dict.fromkeys(maps, _MAP), frozenset())
        for x in maps:
            self.line(1, f"if type({self.named(x, at)}) is not dict: return {sure}, 0")
        for x, y in guards:
            differ = "!=" if y.op == "const" else "is not"
            self.line(1, f"if {self.value(x, at)} {differ} {self.value(y, at)}: return {sure}, 0")
        self.line(1, "u = s = 0")
        self.scope(scope, at)
        self.line(1, "return u, s & ~u")
        return "\n".join(self.lines) + "\n"

    # lines and names

    def line(self, indent: int, text: str) -> None:
        self.lines.append(" " * indent + text)

    def temp(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def bind(self, prefix: str, key: Any, recipe: Recipe) -> str:
        name = self.bound.get((prefix, key))
        if name is None:
            name = self.bound[prefix, key] = f"{prefix}{len(self.bound)}"
            self.recipes[name] = recipe
        return name

    def constant(self, x: Expr) -> str:
        v = x.payload
        if v is None or v is True or v is False:
            return repr(v)
        return "MISSING" if v is MISSING else self.bind("k", x, ("value", v))

    def key(self, key: str) -> str:
        return self.constant(self.t.const(key))

    # scopes

    def scope(self, s: Scope, at: Place, *, grouped: bool = False) -> None:
        if s.fail:
            self.line(at.indent, f"u |= {s.fail}")
        if s.silent:
            self.line(at.indent, f"s |= {s.silent}")
        rare = {} if grouped else self.rare(s, at)
        lists = self.lists(s, at)
        aside = {condition for group in (*rare.values(), *lists.values()) for condition in group}
        passing = self.shared(s, at, aside)
        self.payments(s, at, aside | passing)
        tables = self.tables(s)
        done = {condition for group in tables.values() for condition in group} | aside
        for x, group in tables.items():
            asked = [(c.data[0], self.t.patterns[c.data[1]].to_json()) for c in group]
            self.table(TEXTS, x, [(*a, *s.fails(c)) for a, c in zip(asked, group, strict=True)], at)
        for x, group in lists.items():
            calls = [(c.data[0], c.data[2], c.data[3], tuple(y.payload for y in c.args[1:])) for c in group]
            self.table(LISTS, x, [(*a, *s.fails(c)) for a, c in zip(calls, group, strict=True)], at)
        for condition, (yes, no) in s.ifs.items():
            if condition not in done:
                self.branch(condition, yes, no, at)
        for x, conditions in rare.items():
            keys = sorted(c.args[0].data for c in conditions)
            self.line(at.indent, f"if not {self.bind('d', tuple(keys), ('keys', keys))}({self.value(x, at)}):")
            self.scope(Scope(ifs={c: s.ifs[c] for c in conditions}), at.inside(), grouped=True)
        for (over, how), inner in s.each.items():
            self.loop(over, how, inner, at)

    def payments(self, s: Scope, at: Place, aside: set[Expr]) -> None:
        """Sees to it that what is paid for keeps within its bound; what goes through a list asks that anyway."""
        through = [(over, each) for (over, _), each in s.each.items()]
        for x, (most, rules) in s.paid.items():
            if x in aside:
                continue
            if x.op == "measured":
                self.line(at.indent, f"meter.left = {ALLOWANCE}")
                self.line(at.indent, f"measure({self.value(x.args[0], at)}, meter)")
            elif not most:
                self.named(x, at)
            elif not any(over is x and each.limit <= most and not rules & ~each.rules for over, each in through):
                v = self.atom(x, at)
                sized = "" if not at.kinds_of(x) - SIZED_KINDS else f"type({v}) in SIZED and "
                self.line(at.indent, f"if {sized}len({v}) > {most}: u |= {rules}")

    def shared(self, s: Scope, at: Place, aside: set[Expr]) -> set[Expr]:
        """Gives names to what is wanted more than once here, but for lists that are only there for the next one to be
        made of: these it answers, and making the other pays for them."""
        often: dict[Expr, int] = {}
        for condition, arms in s.ifs.items():
            if condition in aside:
                continue
            inner = arms[0].wanted() | arms[1].wanted()
            own = set(parts(condition))
            for x in own | inner:
                often[x] = often.get(x, 0) + (2 if x in own and (x in inner or not once(condition, x)) else 1)
        for (over, _), scope in s.each.items():
            inner = scope.wanted()
            own = set(parts(over))
            for x in own | inner:
                often[x] = often.get(x, 0) + (2 if x in own and x in inner else 1)
        for paid in s.paid.keys() - aside:
            for x in parts(paid):
                often[x] = often.get(x, 0) + 1
        twice_or_more = {x for x, n in often.items() if n > 1}
        passing = {of for x in often if (of := _passing(x)) is not None and _only_for(of, x, often, s)}
        for x in sorted(twice_or_more - passing - self.passed, key=lambda x: x.number):
            if x not in at.names and x.loops <= at.loops and self.placed(x, at):
                self.named(x, at)
        return passing

    def placed(self, x: Expr, at: Place) -> bool:
        """Whether all that it looks into is known to be there, so that reading it early is cheap."""
        if x.op == "get":
            return at.kinds_of(x.args[0]) == _MAP and (x.args[0] in at.names or self.placed(x.args[0], at))
        if x.op == "collect" and at.kinds_of(x.args[0]) != _LIST:
            return False
        return all(self.placed(a, at) for a in x.args)

    def rare(self, s: Scope, at: Place) -> dict[Expr, list[Expr]]:
        """Fields that only one rule each asks about, and nothing when they are not there: by the map that they are
        in."""
        found: dict[Expr, list[Expr]] = {}
        for condition, (yes, no) in s.ifs.items():
            if condition.op == "test" and condition.data == _GONE and yes.empty() and condition.args[0].op == "get":
                x = condition.args[0]
                others = (arms for c, arms in s.ifs.items() if c is not condition)
                single = no.rules & (no.rules - 1) == 0
                inside = single and at.kinds_of(x.args[0]) == _MAP and x not in at.names
                if inside and not any(x in arm.wanted() for arms in others for arm in arms):
                    found.setdefault(x.args[0], []).append(condition)
        return {x: group for x, group in found.items() if len(group) > _FEW}

    def tables(self, s: Scope) -> dict[Expr, list[Expr]]:
        """Patterns by the value that they are asked of, where a rule fails that does not match and that is all."""
        found: dict[Expr, list[Expr]] = {}
        for condition, (yes, no) in s.ifs.items():
            if condition.op == "pred" and yes.ends() and no.ends():
                found.setdefault(condition.args[0], []).append(condition)
        return {x: group for x, group in found.items() if len(group) >= _FEW}

    def lists(self, s: Scope, at: Place) -> dict[Expr, list[Expr]]:
        """Intrinsics that say of a list, and of constants, whether a rule fails, and that is all."""
        found: dict[Expr, list[Expr]] = {}
        for c, (yes, no) in s.ifs.items():
            if c.op != "call" or c in at.names or c.data[1] or not (yes.ends() and no.ends()):
                continue
            x, *others = c.args
            if "list" in at.kinds_of(x) and x.op != "const" and all(y.op == "const" for y in others):
                found.setdefault(x, []).append(c)
        return found

    def table(self, word: str, x: Expr, group: list[Any], at: Place) -> None:
        """What is known of a value, as a mask of the rules that fail by it, or is found out."""
        v = self.atom(x, at)
        number = self.bind("m", len(self.bound), (word, group))[1:]
        t = self.temp()
        if word == LISTS:
            self.line(at.indent, f"try: {t} = g{number}(tuple({v})) if type({v}) is list else None")
            self.line(at.indent, f"except NO_STEP: {t} = None")
        elif at.kinds_of(x) == _TEXT:
            self.line(at.indent, f"{t} = g{number}({v})")
        else:
            self.line(at.indent, f"{t} = g{number}({v}) if type({v}) is str else None")
        self.line(at.indent, f"if {t} is None: {t} = a{number}({v}{', meter' if word == LISTS else ''})")
        self.line(at.indent, f"if {t}: u |= {t}")

    def branch(self, condition: Expr, yes: Scope, no: Scope, at: Place) -> None:
        if yes.empty() and no.empty():
            return
        if yes.empty():
            self.line(at.indent, f"if {self.condition(condition, at, holds=False)}:")
            self.body(no, at.where(condition, False))
            return
        self.line(at.indent, f"if {self.condition(condition, at, holds=True)}:")
        self.body(yes, at.where(condition, True))
        if not no.empty():
            self.line(at.indent, "else:")
            self.body(no, at.where(condition, False))

    def body(self, s: Scope, at: Place) -> None:
        """A scope inside: what it pays for may have been paid before."""
        before = len(self.lines)
        self.scope(s, at)
        if len(self.lines) == before:
            self.line(at.indent, "pass")

    def loop(self, over: Expr, how: str, inner: Scope, at: Place) -> None:
        t = self.t
        level = at.open.count(over)
        x = self.atom(over, at)
        kind, name = (_MAP, "dict") if how == "each_pair" else (_LIST, "list")
        # What is no list has failed before where the rule expects one.
        other = "" if at.kinds_of(over) == kind else f"type({x}) is not {name} or "
        self.line(at.indent, f"if {other}len({x}) > {inner.limit}: u |= {inner.rules}")
        if inner.empty():
            return
        self.line(at.indent, "else:")
        element = t.make("var", (over,), ("item", level))
        name = self.temp()
        names = {**at.names, element: name}
        bound = {element}
        head = f"for {name} in {x}:"
        if how == "each_pair":
            key = t.make("var", (over,), ("key", level))
            names[key] = other = self.temp()
            bound.add(key)
            head = f"for {other}, {name} in {x}.items():"
        elif how == "each_index":
            index = t.make("var", (over,), ("index", level))
            names[index] = other = self.temp()
            bound.add(index)
            head = f"for {other}, {name} in enumerate({x}):"
        self.line(at.indent + 1, head)
        self.body(inner, Place(at.indent + 2, names, at.kinds, at.loops | bound, (*at.open, over)))

    # conditions

    def condition(self, x: Expr, at: Place, *, holds: bool) -> str:
        """The text of a condition, or of its opposite."""
        if x in at.names:
            return at.names[x] if holds else f"not {at.names[x]}"
        match x.op:
            case "test":
                return self.test(x, at, holds)
            case "empty":
                return f"not {self.atom(x.args[0], at)}" if holds else self.atom(x.args[0], at)
            case "text":
                return f"{self.atom(x.args[0], at)} {'==' if holds else '!='} {self.key(x.data)}"
        text = self.value(x, at)
        return text if holds else f"not {text}"

    def test(self, x: Expr, at: Place, holds: bool) -> str:
        of = x.args[0]
        is_ = "is" if holds else "is not"
        if len(x.data) == 1:
            (kind,) = x.data
            if kind == "missing" and of.op == "get" and of not in at.names and at.kinds_of(of.args[0]) == _MAP:
                inside = "not in" if holds else "in"
                return f"{self.key(of.data)} {inside} {self.atom(of.args[0], at)}"
            v = self.atom(of, at)
            if kind in _SINGLE:
                return f"{v} {is_} {_SINGLE[kind]}"
            if kind in _TYPE:
                return f"type({v}) {is_} {_TYPE[kind]}"
        v = self.atom(of, at)
        terms = [f"{v} is {_SINGLE[k]}" for k in sorted(x.data) if k in _SINGLE]
        terms += [f"type({v}) is {_TYPE[k]}" for k in sorted(x.data) if k in _TYPE]
        if x.data & _NUMBERS:
            terms.append(f"type({v}) in NUMBERS")
        if "other" in x.data:
            terms.append(f"type({v}) not in JSON")
        text = " or ".join(terms)
        return f"({text})" if holds else f"not ({text})"

    # values

    def named(self, x: Expr, at: Place) -> str:
        """The value under a name of its own from here on."""
        if x.op in ("const", "root") or x in at.names:
            return self.value(x, at)
        text = self.value(x, at)
        name = at.names.get(x)
        if name is None:
            name = at.names[x] = self.temp()
            self.line(at.indent, f"{name} = {text}")
        return name

    def atom(self, x: Expr, at: Place) -> str:
        return self.named(x, at)

    def value(self, x: Expr, at: Place) -> str:
        name = at.names.get(x)
        if name is not None:
            return name
        match x.op:
            case "const":
                return self.constant(x)
            case "root":
                return "root"
            case "get":
                base = self.atom(x.args[0], at)
                text = f"{base}.get({self.key(x.data)}, MISSING)"
                return text if at.kinds_of(x.args[0]) == _MAP else f"({text} if type({base}) is dict else MISSING)"
            case "pred":
                return self.predicate(x, at)
            case "holds":
                return self.holds(x, at)
            case "more":
                v, i = (self.atom(a, at) for a in x.args)
                return f"(type({v}) is list and {i} + 1 < len({v}))"
            case "optional":
                v = self.atom(x.args[0], at)
                return f"(NONE if {v} is MISSING else Optional({v}))"
            case "joined":
                return f"joined({', '.join(self.value(a, at) for a in x.args)})"
            case "not":
                return f"(not {self.value(x.args[0], at)})"
            case "test" | "empty" | "text":
                return f"({self.condition(x, at, holds=True)})"
            case "built":
                return f"[{', '.join(self.value(a, at) for a in x.args)}]"
            case "equal":
                return self.called("s_equal", [self.value(a, at) for a in x.args], at, x, "{}, {}, meter")
            case "call":
                return self.call(x, at)
            case "collect":
                return self.collect(x, at)
        return self.operation(x, at)

    def holds(self, x: Expr, at: Place) -> str:
        text, guards, key = x.data
        names = [self.atom(a, at) for a in x.args]
        constant = self.bind("k", (text, key), x.payload) if "{c}" in text else ""
        said: str = text.format(*names, c=constant)
        for name, guard, arg in zip(names, guards, x.args, strict=False):
            if at.kinds_of(arg) != _OF_TYPE[guard]:
                said = f"(type({name}) is {guard} and {said})"
        return said

    def operation(self, x: Expr, at: Place) -> str:
        name, key = x.data
        if name == "length" and not at.kinds_of(x.args[0]) - SIZED_KINDS:
            return f"len({self.value(x.args[0], at)})"
        template = BY_NAME[name].tier2
        bound = self.key(key) if key is not None else ""
        if template is None:
            args = [self.value(a, at) for a in x.args]
            return f"s_{name}({', '.join([*args, *([bound] if bound else [])])})"
        args = [self.atom(a, at) if template.count(f"{{{n}}}") > 1 else self.value(a, at) for n, a in enumerate(x.args)]
        return template.format(*args, a=bound, b=bound)

    def called(self, function: str, args: list[str], at: Place, x: Expr, form: str) -> str:
        """A call with an allowance of fuel, under a name."""
        self.line(at.indent, f"meter.left = {ALLOWANCE}")
        name = at.names[x] = self.temp()
        self.line(at.indent, f"{name} = {function}({form.format(*args)})")
        return name

    def call(self, x: Expr, at: Place) -> str:
        _, metered = x.payload
        entry, lent, sized, measured, _ = x.data
        if self.writes(x, at):
            return _WRITTEN[entry](self, x, at)
        args = [self.atom(a, at) for a in x.args]
        if metered or sized or measured:
            self.line(at.indent, f"meter.left = {ALLOWANCE}")
        for n in sized:
            sized_one = "" if at.kinds_of(x.args[n]) == _LIST else f"type({args[n]}) in LONG and "
            length = f"len({args[n]})"
            self.line(at.indent, f"if {sized_one}{length} > {_FREE}: meter.charge({length} >> {CHUNK})")
        for n in measured:
            self.line(at.indent, f"measure({args[n]}, meter)")
        word = "plain" if entry == "text.deep" else "call"
        function = self.bind("i", (entry, lent), (word, entry, self.lent.get(lent, 0)))
        name = at.names[x] = self.temp()
        self.line(at.indent, f"{name} = {function}({', '.join([*(['meter'] if metered else []), *args])})")
        return name

    def writes(self, x: Expr, at: Place) -> bool:
        """Whether a call is of an intrinsic that is written out for what it is given."""
        entry, _, _, measured, _ = x.data
        return entry in _WRITTEN and not measured and at.kinds_of(x.args[0]) == _LIST

    def flatten(self, x: Expr, at: Place, most: int = LONGEST) -> str:
        """``jmes.flatten`` of a list, without a call: what it pays for is the length of what it makes. ``most`` is how
        long that may be for who asks."""
        (over,) = x.args
        name = self.temp()
        if over.op == "built":
            items = [(self.atom(y, at), at.kinds_of(y)) for y in over.args]
            self.line(at.indent, f"{name} = []")
            for item, kinds in items:
                self.flat(item, kinds, name, at.indent)
        elif over.op == "collect" and over not in at.names:
            # What else wants the list that is made flat would have given it a name.
            self.passed.add(over)
            self.gathered(over, name, at, flat=True)
        else:
            v, item = self.atom(over, at), self.temp()
            self.line(at.indent, f"{name} = []")
            self.line(at.indent, f"for {item} in {v}:")
            self.flat(item, KINDS, name, at.indent + 1)
        self.short(name, most, at)
        self.lengths[name] = most
        at.names[x] = name
        return name

    def flat(self, item: str, kinds: Kinds, name: str, indent: int) -> None:
        """An item into a list, or what is in it."""
        if kinds == _LIST:
            self.line(indent, f"{name} += {item}")
        elif "list" in kinds:
            self.line(indent, f"if type({item}) is list: {name} += {item}")
            self.line(indent, f"else: {name}.append({item})")
        else:
            self.line(indent, f"{name}.append({item})")

    def short(self, v: str, most: int, at: Place) -> None:
        """Sees to it that a list is no longer than it may be."""
        if self.lengths.get(v, most + 1) > most:
            self.line(at.indent, f"if len({v}) > {most}: raise OutOfFuel")

    def compact(self, x: Expr, at: Place) -> str:
        """``jmes.compact`` of a list: the list itself where there is nothing to leave out."""
        v, name = self.atom(x.args[0], at), self.temp()
        self.short(v, LONGEST, at)
        self.line(at.indent, f"{name} = {v} if None not in {v} else [x for x in {v} if x is not None]")
        at.names[x] = name
        return name

    def predicate(self, x: Expr, at: Place) -> str:
        """A scalar pattern, written out for the usual values and called for the others."""
        every, key = x.data
        pattern = self.t.patterns[key]
        data = pattern.to_json()
        rest = self.bind("q", x.data, ("pattern", every, data))
        code = inline(pattern)
        if code is None:
            return f"{rest}({self.value(x.args[0], at)})"
        text = code.of_text if code.of_text and at.kinds_of(x.args[0]) == _TEXT else code.whole

        def constant(label: str, _: Any) -> str:
            n = int(label.rpartition("_")[2])
            return self.bind("v", (key, n), ("part", data, n))

        return code.applied(text, self.atom(x.args[0], at), rest, constant, "v")

    def collect(self, x: Expr, at: Place) -> str:
        name = self.temp()
        self.gathered(x, name, at, flat=False)
        at.names[x] = name
        return name

    def gathered(self, x: Expr, name: str, at: Place, *, flat: bool) -> None:
        """What a ``collect`` makes, under a name; ``flat``: made flat at once."""
        (_, depth), shape = x.data
        over, most = x.args[0], _COLLECTED[min(depth, 2)]
        if over not in at.names and over.op == "call" and over.data[0] == "jmes.flatten" and self.writes(over, at):
            v = self.flatten(over, at, most)
        else:
            v = self.atom(over, at)
        if at.kinds_of(over) != _LIST:
            v = f"({v} if type({v}) is list else [])"
        # What a round wants of outside is named outside.
        for outer in sorted({*parts(x)} - {x} - self.passed, key=lambda y: y.number):
            if outer.loops <= at.loops and self.placed(outer, at):
                self.named(outer, at)
        self.short(v, most, at)
        self.line(at.indent, f"{name} = []")
        element = self.temp()
        self.line(at.indent, f"for {element} in {v}:")
        inner = Place(
            at.indent + 1, {**at.names, x.payload: element}, at.kinds, at.loops | {x.payload}, (*at.open, over)
        )
        self.shape(shape, name, inner, flat=flat)

    def shape(self, shape: Any, name: str, at: Place, *, flat: bool) -> None:
        if isinstance(shape, Fork):
            for y in sorted(twice(shape) - self.passed, key=lambda y: y.number):
                if y not in at.names and y.loops <= at.loops and self.placed(y, at):
                    self.named(y, at)
            for holds, arm in ((True, shape.yes), (False, shape.no)):
                if arm != ():
                    # Both arms ask again where both add something, which is rare.
                    self.line(at.indent, f"if {self.condition(shape.condition, at, holds=holds)}:")
                    self.shape(arm, name, at.where(shape.condition, holds), flat=flat)
            return
        for item in shape:
            if flat:
                self.flat(self.atom(item, at), at.kinds_of(item), name, at.indent)
            else:
                self.line(at.indent, f"{name}.append({self.value(item, at)})")


def _passing(x: Expr) -> Expr | None:
    """The list that another is made of so that both can be made at once: a flat one of what is collected, or what is
    collected of a flat one."""
    match x.op:
        case "call" if x.data[0] == "jmes.flatten" and x.args[0].op == "collect":
            return x.args[0]
        case "collect" if x.args[0].op == "call" and x.args[0].data[0] == "jmes.flatten":
            return x.args[0]
    return None


def _only_for(of: Expr, x: Expr, often: Mapping[Expr, int], s: Scope) -> bool:
    """Whether a list is wanted here for another alone, and for no more than that its making is paid for."""
    if of not in s.paid:
        return often.get(of) == often[x]
    return often.get(of) == often[x] + 1 and s.paid[of][0] == 0 and x in s.paid


_MAP: Final = of_value({})
_LIST: Final = of_value([])
_TEXT: Final = of_value("")
_GONE: Final = of_value(MISSING)
_NUMBERS: Final = of_value(0)
_OF_TYPE: Final[dict[str, Kinds]] = {"str": _TEXT, "list": _LIST}
_COLLECTED: Final = (64, 8, 2)
"""How long a list may be of which another is made, by how many loops go on around: no rule has lower limits."""
_WRITTEN: Final = {"jmes.flatten": Writer.flatten, "jmes.compact": Writer.compact}
"""Intrinsics that are written out."""
