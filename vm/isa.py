"""The instruction set: one table, from which numbers, codec, verifier, assembler, disassembler, fuel, reference page
and the generated code all follow.

Each row has a stack picture ``pops NAME pushes`` in static kinds, e.g. ``"V get V"``. Kinds form a lattice: ``V`` (any
value, errors and MISSING included) lies above ``B`` (bool), ``I`` (int), ``S`` (text), ``L`` (list), ``M`` (map),
``E`` (error value); ``O`` (outcome) stands alone. An operand of kind K accepts any kind below K. ``IF`` takes only
``B``, so that a JMESPath value can never be used as a condition by accident and generated code may say ``if x:``.

Control is structured (``if else end``, ``each end``, ``break``, ``next``, ``ret``), calls are acyclic, so that every
verified program ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Imm(Enum):
    """What an immediate (unsigned LEB128) means; the verifier checks it against the table it points into."""

    CONST = "const"  # index into the constants, any kind
    KEY = "key"  # index into the constants, must be text
    LOCAL = "local"  # local slot
    FUNC = "func"  # function of the module
    IMPORT = "import"  # intrinsic named in the imports
    PATH = "path"  # index into the paths: a tuple of keys from the root
    PATTERN = "pattern"  # index into the scalar patterns
    UINT = "uint"  # plain number
    UNITS = "units"  # plain number of cost units
    ARITY = "arity"  # results an IF leaves: 0 or 1
    CELL = "cell"  # context cell
    HOST = "host"  # kind of host call, see vm.host.HOST_CALLS


class Effect(Enum):
    PURE = "pure"
    CONTROL = "control"
    LOCALS = "locals"  # writes a local
    MUTATES = "mutates"  # changes a list or map that the same function made
    METERS = "meters"  # adds to the cost of an expression
    SUSPENDS = "suspends"
    CELLS = "cells"  # runs a function on a root of its own, or forgets what a cell holds


KINDS: Final = "VBISLMEO"


def kind_le(a: str, b: str) -> bool:
    """Whether a value of kind ``a`` may stand where kind ``b`` is asked for."""
    return a == b or (b == "V" and a != "O")


def kind_join(a: str, b: str) -> str | None:
    """Least kind above both, None where an outcome meets a value."""
    if a == b:
        return a
    return None if "O" in (a, b) else "V"


@dataclass(frozen=True, slots=True)
class Op:
    number: int
    name: str
    imm: tuple[Imm, ...]
    stack: str
    doc: str
    fuel: int = 1
    effect: Effect = Effect.PURE
    tier2: str | None = None  # expression template: {0} {1} operands, {a} {b} immediates resolved to generated names
    pops: tuple[str, ...] = field(init=False)
    pushes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        left, name, right = self.stack.partition(self.name)
        if not name or any(k not in KINDS for k in (left + right).replace(" ", "")):
            raise ValueError(f"stack picture of {self.name} does not parse: {self.stack}")
        object.__setattr__(self, "pops", tuple(left.split()))
        object.__setattr__(self, "pushes", tuple(right.split()))


_C, _L, _U = Effect.CONTROL, Effect.LOCALS, Effect.MUTATES
I_ = Imm

OPS: Final[tuple[Op, ...]] = (
    # 00-0F stack and constants. Kinds of const and local follow from the constant or the local; the picture says V.
    Op(0x00, "nop", (), "nop", "does nothing"),
    Op(0x01, "const", (I_.CONST,), "const V", "a constant; its kind is the constant's", tier2="{a}"),
    Op(0x02, "true", (), "true B", "true", tier2="True"),
    Op(0x03, "false", (), "false B", "false", tier2="False"),
    Op(0x04, "null", (), "null V", "null", tier2="None"),
    Op(0x05, "missing", (), "missing V", "the value of a key that is not there", tier2="MISSING"),
    Op(0x06, "pop", (), "V pop", "drops the top"),
    Op(0x07, "local", (I_.LOCAL,), "local V", "a local; its kind is the local's", tier2="{a}"),
    Op(0x08, "set", (I_.LOCAL,), "V set", "stores the top in a local", effect=_L),
    Op(0x09, "tee", (I_.LOCAL,), "V tee V", "stores the top in a local and keeps it", effect=_L),
    # 10-1F control
    Op(0x10, "if", (I_.ARITY,), "B if", "runs the first arm when true; both arms leave ARITY values", effect=_C),
    Op(0x11, "else", (), "else", "starts the second arm", effect=_C),
    Op(0x12, "end", (), "end", "ends an if or a loop", effect=_C),
    Op(0x13, "each", (I_.LOCAL,), "L each", "runs the block for each element, bound to a local", effect=_C),
    Op(
        0x14,
        "each_index",
        (I_.LOCAL, I_.LOCAL),
        "L each_index",
        "each, with the element and its index bound",
        effect=_C,
    ),
    Op(0x15, "each_pair", (I_.LOCAL, I_.LOCAL), "M each_pair", "for each key (in sorted order) and value", effect=_C),
    Op(0x16, "break", (), "break", "leaves the innermost loop", effect=_C),
    Op(0x17, "next", (), "next", "goes on with the next element of the innermost loop", effect=_C),
    Op(0x18, "ret", (), "V ret", "returns the top; its kind is at most the function's result kind", effect=_C),
    Op(
        0x19,
        "call",
        (I_.FUNC,),
        "call V",
        "calls a function; pops its parameters, pushes its result kind",
        fuel=2,
        effect=_C,
    ),
    Op(
        0x1A, "invoke", (I_.IMPORT,), "invoke V", "calls an intrinsic; kinds and fuel are its catalogue entry's", fuel=2
    ),
    # 20-2F access. A key that is not there, or a value that is no map, gives MISSING.
    Op(
        0x20, "path", (I_.PATH,), "path V", "the value at a constant path of the root; MISSING when a step is not there"
    ),
    Op(
        0x21,
        "get",
        (I_.KEY,),
        "V get V",
        "a field of a map",
        tier2="({0}.get({a}, MISSING) if type({0}) is dict else MISSING)",
    ),
    Op(
        0x22,
        "local_get",
        (I_.LOCAL, I_.KEY),
        "local_get V",
        "a field of a local",
        tier2="({a}.get({b}, MISSING) if type({a}) is dict else MISSING)",
    ),
    Op(
        0x23,
        "index",
        (),
        "V I index V",
        "an element of a list by position, from the end when negative; MISSING beyond it",
    ),
    Op(
        0x24,
        "as_list",
        (),
        "V as_list L",
        "the list, or an empty one for any other value",
        tier2="({0} if type({0}) is list else [])",
    ),
    Op(
        0x25,
        "as_map",
        (),
        "V as_map M",
        "the map, or an empty one for any other value",
        tier2="({0} if type({0}) is dict else {{}})",
    ),
    Op(
        0x26,
        "absent_null",
        (),
        "V absent_null V",
        "null for MISSING, any other value as it is",
        tier2="(None if {0} is MISSING else {0})",
    ),
    Op(
        0x27,
        "as_text",
        (),
        "V as_text S",
        "the text, or an empty one for any other value",
        tier2="({0} if type({0}) is str else '')",
    ),
    # 30-3F tests, always to B
    Op(0x30, "is_true", (), "V is_true B", "is the boolean true", tier2="({0} is True)"),
    Op(0x31, "is_false", (), "V is_false B", "is the boolean false", tier2="({0} is False)"),
    Op(0x32, "is_missing", (), "V is_missing B", "is MISSING", tier2="({0} is MISSING)"),
    Op(0x33, "is_null", (), "V is_null B", "is null", tier2="({0} is None)"),
    Op(0x34, "is_absent", (), "V is_absent B", "is MISSING or null", tier2="({0} is None or {0} is MISSING)"),
    Op(0x35, "is_err", (), "V is_err B", "is an error value", tier2="(type({0}) is Err)"),
    Op(0x36, "is_list", (), "V is_list B", "is a list", tier2="(type({0}) is list)"),
    Op(0x37, "is_map", (), "V is_map B", "is a map", tier2="(type({0}) is dict)"),
    Op(0x38, "is_text", (), "V is_text B", "is a text", tier2="(type({0}) is str)"),
    Op(0x39, "equal", (), "V V equal B", "deep JSON equality", fuel=2),
    Op(0x3A, "not", (), "B not B", "negation", tier2="(not {0})"),
    Op(0x3B, "is_empty", (), "V is_empty B", "is an empty text, list or map", tier2="(type({0}) in SIZED and not {0})"),
    Op(0x3C, "less", (), "I I less B", "integer comparison", tier2="({0} < {1})"),
    Op(
        0x3D,
        "length",
        (),
        "V length I",
        "length of a text (code points), list or map, else 0",
        tier2="(len({0}) if type({0}) in SIZED else 0)",
    ),
    Op(
        0x3E,
        "err_code",
        (I_.KEY,),
        "V err_code B",
        "is an error value of this code",
        tier2="(type({0}) is Err and {0}.code == {a})",
    ),
    # 40-5F CEL: errors travel as values; an operand that is an error is the result
    Op(
        0x40,
        "c_path",
        (I_.PATH,),
        "c_path V",
        "the value at a constant path of the root by CEL rules: Err where a step is not there or cannot be taken",
    ),
    Op(
        0x41,
        "c_select",
        (I_.KEY,),
        "V c_select V",
        "field of a map, message or optional value; Err no_such_key when absent, and of anything else",
        tier2="({0}[{a}] if type({0}) is dict and {a} in {0} else s_c_select({0}, {a}))",
    ),
    Op(
        0x42,
        "c_has",
        (I_.KEY,),
        "V c_has V",
        "has(): whether a field is there; false of what has no fields, Err of a list",
        tier2="({a} in {0} if type({0}) is dict else s_c_has({0}, {a}))",
    ),
    Op(
        0x43,
        "c_and",
        (),
        "V V c_and V",
        "joins two terms of &&, the first not false: false decides, else the first that is no bool is the error",
        tier2="({1} if {0} is True and ({1} is True or {1} is False) else s_c_and({0}, {1}))",
    ),
    Op(
        0x44,
        "c_or",
        (),
        "V V c_or V",
        "joins two terms of ||, the first not true: true decides, else the first that is no bool is the error",
        tier2="({1} if {0} is False and ({1} is True or {1} is False) else s_c_or({0}, {1}))",
    ),
    Op(
        0x45,
        "c_cond",
        (),
        "V c_cond E",
        "the error of a condition that is no bool: itself, or Err overload",
    ),
    Op(
        0x46,
        "c_charge",
        (I_.UNITS,),
        "c_charge B",
        "adds n units to the cost of the expression; whether that has passed its limit",
        effect=Effect.METERS,
    ),
    Op(
        0x47,
        "c_open",
        (),
        "c_open I",
        "begins to count the cost of an expression; the count of the one around it, for c_close",
        effect=Effect.METERS,
    ),
    Op(
        0x48,
        "c_close",
        (),
        "V I c_close V",
        "ends the count: the value of the expression, or Err cost when its limit or the budget is passed",
        effect=Effect.METERS,
    ),
    Op(
        0x49,
        "c_not",
        (),
        "V c_not V",
        "negation; Err of what is no bool",
        tier2="(not {0} if {0} is True or {0} is False else s_c_cond({0}))",
    ),
    Op(
        0x4A,
        "c_whole",
        (),
        "V c_whole V",
        "a list or map just made, or the first error among its elements",
        fuel=2,
    ),
    Op(
        0x4B,
        "c_more",
        (),
        "V I c_more B",
        "a list has an element behind the one at a position",
        tier2="(type({0}) is list and {1} + 1 < len({0}))",
    ),
    Op(
        0x4C,
        "c_is_text",
        (I_.KEY,),
        "V c_is_text V",
        "equals a constant text; Err of an error",
        tier2="({0} == {a} if type({0}) is str else s_c_is_text({0}, {a}))",
    ),
    # 60-6F JMESPath: errors travel as values; an operand that is an error is the result
    Op(0x60, "j_field", (I_.KEY,), "V j_field V", "field of a map; Err not_found when absent; null of anything else"),
    Op(0x61, "j_index", (), "V I j_index V", "element of a list; null beyond it and of anything else"),
    Op(
        0x62,
        "j_found",
        (),
        "V j_found V",
        "null in place of Err not_found or MISSING",
        tier2="(None if ({0} is MISSING or (type({0}) is Err and {0}.code == 'not_found')) else {0})",
    ),
    Op(
        0x63,
        "j_truthy",
        (),
        "V j_truthy B",
        "JMESPath truth: false, null, empty text, list and map are false",
        tier2="({0} is not False and {0} is not None and {0} is not MISSING and not (type({0}) in SIZED and not {0}))",
    ),
    Op(
        0x64,
        "j_path",
        (I_.PATH,),
        "j_path V",
        "the value at a constant path of the root by JMESPath rules: Err not_found where a map lacks a key, null below"
        " anything that is no map",
    ),
    Op(
        0x65,
        "j_root",
        (),
        "j_root V",
        "the root itself, engine keys included: for intrinsics that look into it",
        tier2="root",
    ),
    # 70-7F patterns
    Op(
        0x70,
        "p_leaf",
        (I_.PATTERN,),
        "V p_leaf B",
        "a scalar pattern holds; for a list, of every element (an empty list holds)",
        fuel=2,
        tier2="{a}({0})",
    ),
    Op(
        0x71,
        "p_scalar",
        (I_.PATTERN,),
        "V p_scalar B",
        "a scalar pattern holds of the value itself",
        fuel=2,
        tier2="{a}({0})",
    ),
    # 80-8F building
    Op(0x80, "new_list", (), "new_list L", "a fresh list", tier2="[]"),
    Op(0x81, "new_map", (), "new_map M", "a fresh map", tier2="{{}}"),
    Op(0x82, "append", (), "L V append L", "adds an element to a list this function made", effect=_U),
    Op(0x83, "put", (I_.KEY,), "M V put M", "sets a field of a map this function made", effect=_U),
    Op(
        0x84,
        "put_key",
        (),
        "M S V put_key M",
        "sets a field, named at run time, of a map this function made",
        effect=_U,
    ),
    Op(
        0x85, "concat", (I_.UINT,), "concat S", "joins the n texts on top, first pushed first; pops n of kind S", fuel=2
    ),
    Op(0x86, "to_text", (), "V to_text S", "a text as it is, anything else as compact JSON with sorted keys", fuel=2),
    # 90-97 context and host
    Op(0x90, "cell", (I_.CELL,), "cell V", "a context cell; its init function runs on first use", fuel=2),
    Op(
        0x91,
        "await",
        (I_.HOST,),
        "V await V",
        "asks the host and suspends until it answers",
        fuel=8,
        effect=Effect.SUSPENDS,
    ),
    Op(
        0x92,
        "scoped",
        (I_.FUNC,),
        "M scoped V",
        "calls a function without parameters on the root with the fields of a map put over its own, and pushes its"
        " value; one unit more for each 64 fields of both",
        fuel=4,
        effect=Effect.CELLS,
    ),
    Op(
        0x93,
        "o_scoped",
        (I_.FUNC,),
        "M o_scoped O",
        "as scoped, of a function that answers an outcome",
        fuel=4,
        effect=Effect.CELLS,
    ),
    Op(
        0x94,
        "reset",
        (I_.CELL,),
        "reset B",
        "forgets what a cell holds, so that its init function runs again; whether it held anything",
        fuel=2,
        effect=Effect.CELLS,
    ),
    # 98-9F outcomes: pop what is reported, push an outcome
    Op(0x98, "o_pass", (), "o_pass O", "the rule holds", tier2="PASSED"),
    Op(0x99, "o_none", (), "o_none O", "no result: the rule has nothing to say here (not a skip)", tier2="NOTHING"),
    Op(0x9A, "o_fail", (), "S o_fail O", "the rule is violated; pops the message"),
    Op(0x9B, "o_skip", (), "S o_skip O", "the rule is skipped; pops the message"),
    Op(0x9C, "o_error", (), "S o_error O", "the rule could not be evaluated; pops the message"),
    Op(0x9D, "o_patch", (), "V S o_patch O", "the rule changed the resource; pops the new resource and the message"),
    Op(0x9E, "o_pass_text", (), "S o_pass_text O", "the rule holds, with its own message"),
    Op(
        0x9F,
        "o_status",
        (),
        "O o_status I",
        "the number of an outcome's status: 0 none, 1 pass, 2 fail, 3 skip, 4 error",
        tier2="{0}.status.value",
    ),
    Op(
        0xA0,
        "o_prefixed",
        (),
        "S O o_prefixed O",
        "the outcome with a text before its message",
    ),
)

BY_NAME: Final = {op.name: op for op in OPS}
BY_NUMBER: Final = {op.number: op for op in OPS}
if len(BY_NAME) != len(OPS) or len(BY_NUMBER) != len(OPS):
    raise ValueError("two opcodes share a name or a number")
