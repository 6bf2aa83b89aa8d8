"""List, map and message literals to IR. What is constant through and through becomes a constant."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.frontends.cel.ast import ListLit, Literal, MapLit, StructLit
from compiler.frontends.cel.lowered import Low, block, over
from compiler.frontends.cel.scope import Scope
from compiler.ir import ops as ir
from vm.cel.containers import put
from vm.values import Err

_LIST, _MAP, _MESSAGE = 10, 30, 40
"""What making one costs (cel-go)."""


def list_literal(scope: Scope, node: ListLit) -> Low:
    lows = [scope.value(x) for x in node.items]
    if not node.optional and (values := _constants(lows)) is not None:
        return Low(ir.Const(values), sound=True)
    name = scope.fresh("V" if node.optional else "L", "list")
    made = ir.Local(name)
    body: list[ir.Stmt] = [ir.Set(name, ir.Op("new_list"))]
    for number, low in enumerate(lows):
        if number in node.optional:
            body.append(ir.Set(name, ir.Invoke("cel.build.list.add_optional.2", (made, low.expr))))
        elif node.optional:
            body.append(ir.Set(name, ir.Invoke("cel.build.list.add.2", (made, low.expr))))
        else:
            body.append(ir.Do(ir.Op("append", (made, low.expr))))
    sound = not node.optional and all(x.sound for x in lows)
    value = made if sound or node.optional else ir.Op("c_whole", (made,))
    return over(block(body, value), *lows, cost=_LIST, sound=sound, deep=2, layers=1)


def map_literal(scope: Scope, node: MapLit) -> Low:
    keys = [scope.value(e.key) for e in node.entries]
    values = [scope.value(e.value) for e in node.entries]
    texts = [k.expr.value for k in keys if isinstance(k.expr, ir.Const) and type(k.expr.value) is str]
    plain = len(texts) == len(set(texts)) == len(node.entries) and not any(e.optional for e in node.entries)
    if plain:
        found = _constants(values)
        if found is not None:
            return Low(ir.Const(dict(zip(texts, found, strict=True))), sound=True)
        return _object(scope, texts, values)
    constant = _constant_map(keys, values) if not any(e.optional for e in node.entries) else None
    if constant is not None:
        return Low(ir.Const(constant), sound=True)
    name = scope.fresh("V", "map")
    made = ir.Local(name)
    body: list[ir.Stmt] = [ir.Set(name, ir.Op("new_map"))]
    for entry, key, value in zip(node.entries, keys, values, strict=True):
        put = "cel.build.map.put_optional.3" if entry.optional else "cel.build.map.put.3"
        body.append(ir.Set(name, ir.Invoke(put, (made, key.expr, value.expr))))
    return over(block(body, made), *keys, *values, cost=_MAP, deep=2, layers=1)


def _object(scope: Scope, keys: Sequence[str], values: Sequence[Low]) -> Low:
    """A map with constant texts as keys, each once."""
    name = scope.fresh("M", "map")
    made = ir.Local(name)
    body: list[ir.Stmt] = [ir.Set(name, ir.Op("new_map"))]
    body += [ir.Do(ir.Op("put", (made, v.expr), (k,))) for k, v in zip(keys, values, strict=True)]
    sound = all(v.sound for v in values)
    return over(
        block(body, made if sound else ir.Op("c_whole", (made,))), *values, cost=_MAP, sound=sound, deep=2, layers=1
    )


def message(scope: Scope, node: StructLit) -> Low:
    """``Name{field: value}``: the fields that are set, given to the constructor of messages."""
    values = [scope.value(f.value) for f in node.fields]
    name = scope.fresh("V", "fields")
    made = ir.Local(name)
    body: list[ir.Stmt] = [ir.Set(name, ir.Op("new_map"))]
    for f, v in zip(node.fields, values, strict=True):
        put = "cel.build.map.put_optional.3" if f.optional else "cel.build.map.put.3"
        body.append(ir.Set(name, ir.Invoke(put, (made, ir.Const(f.name), v.expr))))
    e = ir.Invoke("cel.build.message.2", (ir.Const(scope.checked.structs[node.id]), made))
    return over(block(body, e), *values, cost=_MESSAGE, deep=2, layers=1)


def _constant_map(keys: Sequence[Low], values: Sequence[Low]) -> object | None:
    """A map of constants with keys of any type, None where some are none or the keys do not go together."""
    found_keys, found_values = _constants(keys), _constants(values)
    if found_keys is None or found_values is None:
        return None
    made: object = {}
    for key, value in zip(found_keys, found_values, strict=True):
        made = put(made, key, value)
    return None if isinstance(made, Err) else made


def _constants(lows: Sequence[Low]) -> list[object] | None:
    found = []
    for low in lows:
        if not isinstance(low.expr, ir.Const):
            return None
        found.append(low.expr.value)
    return found


__all__ = ["Literal", "list_literal", "map_literal", "message"]
