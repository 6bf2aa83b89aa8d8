"""Lowers ``validate.podSecurity`` to one call that checks the Pod of the resource (semantics §14), and the texts of its
results.

Called by :mod:`compiler.frontends.validate`. What exceptions exclude besides comes in the root under ``$exclusions``,
put there by the engine for the second run of a rule that has failed.
"""

from __future__ import annotations

from typing import Any, Final

from compiler.frontends.rule import OPERATION, RESOURCE, RuleFrame, concat
from compiler.ir.ops import Const, Invoke, Load, Op
from compiler.schema.model import Exclusion
from vm.intrinsics.pod_security_pod import TEMPLATES
from vm.intrinsics.wildcard import contains_wildcard

_MORE: Final = Load(("$exclusions",))


def lower_pod_security(frame: RuleFrame) -> None:
    """Emits the check up to its last return; a rule that no Pod can be read for is an error."""
    wanted = frame.rule.validate.pod_security if frame.rule.validate else None
    if wanted is None:
        raise ValueError(f"rule {frame.name} has no podSecurity")
    b = frame.builder
    at = frame.at("validate", "podSecurity")
    _kinds(frame)
    b.ret_if(Op("equal", (OPERATION, Const("DELETE"))), Op("o_none"), at)
    excluded = Const([exclusion_json(e) for e in wanted.exclude])
    call = Invoke("podsec.evaluate", (RESOURCE, Const(wanted.level), Const(wanted.version), excluded, _MORE))
    end = b.let(call, "V", "end", at)
    b.ret_if(Op("is_null", (end,)), Op("o_pass"), at)
    text = b.let(Invoke("pat.text", (end,)), "S", "text")
    b.ret_if(Op("err_code", (end,), ("value",)), Op("o_error", (text,)), at)
    broken = f"Validation rule '{frame.name}' failed. It violates PodSecurity \"{wanted.level}:{wanted.version}\": "
    b.ret(Op("o_fail", (concat(Const(broken), text),)), at)


def _kinds(frame: RuleFrame) -> None:
    """Warns of kinds that make no Pods."""
    for f in frame.rule.match.filters:
        for i, written in enumerate(f.kinds):
            kind = written.removesuffix("/ephemeralcontainers").rpartition("/")[2]
            if kind not in TEMPLATES and not contains_wildcard(written):
                frame.scope.warning(
                    "T1347",
                    f"{f.pointer}/resources/kinds/{i}",
                    f"{kind} has no Pods that could be checked: for its objects the rule is an error",
                    expected="one of " + ", ".join(TEMPLATES),
                )


def exclusion_json(exclusion: Exclusion) -> dict[str, Any]:
    """An exclusion as code and bundles hold it; parts that do not restrict are left out."""
    entry: dict[str, Any] = {"controlName": exclusion.control}
    if exclusion.images:
        entry["images"] = list(exclusion.images)
    if exclusion.restricted_field:
        entry["restrictedField"] = exclusion.restricted_field
    if exclusion.values:
        entry["values"] = list(exclusion.values)
    return entry
