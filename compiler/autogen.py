"""Rules for pod controllers, made of a policy's rules for Pods (semantics §13).

Called by the lowering, and by the runtime for the status of a policy.

The rewriting of variable paths is textual, over the JSON of the whole rule, messages and literals included: policies
depend on it. Everything that is textual about autogen lives here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import orjson

from compiler.schema.decode import decode_rule
from compiler.schema.model import Filter, MatchBlock, Origin, Policy, Rule
from compiler.schema.policy_rules import AUTOGEN_ANNOTATION, MAX_NAME

Json: TypeAlias = Any

CONTROLLERS: Final = {
    "DaemonSet": "apps/v1/DaemonSet",
    "Deployment": "apps/v1/Deployment",
    "Job": "batch/v1/Job",
    "ReplicaSet": "apps/v1/ReplicaSet",
    "ReplicationController": "v1/ReplicationController",
    "StatefulSet": "apps/v1/StatefulSet",
    "CronJob": "batch/v1/CronJob",
}
"""Pod controllers with the selector that autogen writes for each; CronJob is rewritten by itself."""

_CRON: Final = "CronJob"
_PREFIX: Final = "autogen-"
_REFERENCE = re.compile(r"(?<!\\)\$\([^ ]*?\)")
_NAMES: Final = (
    (b"object.spec", b"object.spec.%sspec"),
    (b"oldObject.spec", b"oldObject.spec.%sspec"),
    (b"object.metadata", b"object.spec.%smetadata"),
    (b"oldObject.metadata", b"oldObject.spec.%smetadata"),
)
"""What CEL expressions call the objects, so that in a rule with them every ``object.spec`` moves, in messages and
literals too (Kyverno quirk)."""
_ROOTS: Final = tuple((b"request." + old, b"request." + new) for old, new in _NAMES)


def expand(policy: Policy) -> tuple[Rule, ...]:
    """All computed rules of a policy: its own, then per rule ``autogen-…`` and ``autogen-cronjob-…``.

    When autogen makes any rule, rules that are themselves named ``autogen-…`` are dropped (Kyverno quirk).
    """
    names = () if policy.native else controllers(policy)
    if not names:
        return policy.rules
    made = tuple(rule for original in policy.rules for rule in _rules_for(original, names))
    if not made:
        return policy.rules
    return (*(r for r in policy.rules if not r.name.startswith(_PREFIX)), *made)


def controllers(policy: Policy) -> tuple[str, ...]:
    """The controllers that autogen covers for a policy, sorted; none when it does not apply.

    The annotation is split at commas only, as the reference does: a name with a space before it is no controller.
    Names of other kinds with a Pod template are taken as they are.
    """
    if not eligible(policy):
        return ()
    asked = policy.annotations.get(AUTOGEN_ANNOTATION)
    if asked is None or asked == "all":
        return tuple(sorted(CONTROLLERS))
    if asked == "none":
        return ()
    return tuple(sorted({name for name in asked.split(",") if name.strip() == name and name not in ("", "none")}))


def eligible(policy: Policy) -> bool:
    """Whether every rule of the policy allows autogen and one of them names Pod or a pod controller."""
    needed = False
    for rule in policy.rules:
        if rule.raw.get("generate") or (rule.mutate is not None and rule.mutate.patches_json6902):
            return False
        if _has_json_patch((rule.raw.get("mutate") or {}).get("foreach")):
            return False
        for f in _all_filters(rule):
            if f.names or f.selector is not None or f.annotations or f.labels:
                return False
            if len(f.kinds) > 1 and _has_pod(f.kinds):
                return False
            needed = needed or any(kind == "Pod" or kind in CONTROLLERS for kind in f.kinds)
    return needed


def _has_json_patch(loops: list[dict[str, Json]] | None) -> bool:
    return any(f.get("patchesJson6902") or _has_json_patch(f.get("foreach")) for f in loops or ())


def _all_filters(rule: Rule) -> Iterator[Filter]:
    for block in (rule.match, rule.exclude):
        for f in block.filters if block is not None else ():
            yield f
            if f.exclude_resources is not None:
                yield f.exclude_resources


def _kinds(block: MatchBlock | None) -> list[str]:
    return [kind for f in (block.filters if block is not None else ()) for kind in f.kinds]


def _has_pod(kinds: list[str] | tuple[str, ...]) -> bool:
    """Whether one of the selectors names Pod, with or without group, version and subresource."""
    return any(_bare_kind(kind) == "Pod" for kind in kinds)


def _bare_kind(selector: str) -> str:
    parts = selector.split("/")
    if len(parts) > 1 and (parts[-1] == "*" or parts[-1][:1].islower()):
        parts = parts[:-1]
    return parts[-1].partition(".")[0]


def _rules_for(rule: Rule, names: tuple[str, ...]) -> Iterator[Rule]:
    if rule.name.startswith(_PREFIX) or not _has_pod(_kinds(rule.match)):
        return
    excluded = _kinds(rule.exclude)
    if excluded and not _has_pod(excluded):
        return
    others = [n for n in names if n != _CRON]
    if others:
        selectors = [CONTROLLERS.get(n, n) for n in others]
        made = _rewritten(rule.raw, "autogen", ("template",), lambda kinds: selectors if _has_pod(kinds) else kinds)
        if made is not None:
            yield _decoded(made, rule, b"template.", "autogen")
    if _CRON in names:
        steps = ("jobTemplate", "template")
        made = _rewritten(rule.raw, "autogen-cronjob", steps, lambda kinds: [CONTROLLERS[_CRON]])
        if made is not None:
            yield _decoded(made, rule, b"jobTemplate.spec.template.", "autogen-cronjob")


def _decoded(raw: dict[str, Json], rule: Rule, path: bytes, origin: Origin) -> Rule:
    """Rewrites the variable paths in the JSON text of a rule and builds the model of what comes out."""
    text = orjson.dumps(raw)
    for old, new in _NAMES if (raw.get("validate") or {}).get("cel") is not None else _ROOTS:
        text = text.replace(old, new % path)
    return decode_rule(orjson.loads(text), rule.index, rule.pointer, origin)


def _rewritten(
    raw: dict[str, Json], prefix: str, steps: tuple[str, ...], kinds_of: Callable[[list[str]], list[str]]
) -> dict[str, Json] | None:
    """A rule for controllers: kinds replaced, patterns and patches moved below the template; None when nothing is left.

    ``steps`` are the keys under which ``spec`` holds the next object (``jobTemplate``, then ``template``).
    """
    out = dict(raw)
    out["name"] = _cut(f"{prefix}-{raw['name']}")
    out["match"] = _block(raw["match"], kinds_of, always=True)
    if exclude := raw.get("exclude"):
        out["exclude"] = _block(exclude, kinds_of, always=False)
    mutate, validate = raw.get("mutate"), raw.get("validate")
    if mutate is not None and mutate.get("patchStrategicMerge") is not None:
        out["mutate"] = {"patchStrategicMerge": _wrap(mutate["patchStrategicMerge"], steps)}
        return out
    if mutate is not None and mutate.get("foreach"):
        out["mutate"] = {"foreach": [_loop(entry, steps) for entry in mutate["foreach"]]}
        return out
    if validate is None:
        return None
    kept = {k: v for k, v in validate.items() if k not in ("pattern", "deny", "anyPattern", "foreach")}
    shift = "/".join(f"spec/{step}" for step in steps)
    if validate.get("pattern") is not None:
        kept["pattern"] = _wrap(validate["pattern"], steps)
        pivot = "pattern"
    elif validate.get("deny") is not None:
        kept["deny"] = validate["deny"]
        pivot = "deny"
    elif validate.get("anyPattern") is not None:
        kept["anyPattern"] = [_wrap(p, steps) for p in validate["anyPattern"]]
        pivot = "anyPattern"
    elif validate.get("podSecurity") is not None:
        pivot = "podSecurity"
    elif validate.get("foreach") is not None:
        # Elements are the same wherever the list is found: only the paths of variables change.
        kept["foreach"] = validate["foreach"]
        pivot = "pattern"
    elif validate.get("cel") is not None:
        # The references of its messages stay: nothing in the rule has gone to another place.
        out["validate"] = validate
        return out
    else:
        return None
    if type(message := validate.get("message")) is str:
        kept["message"] = _shift_references(message, shift, pivot)
    out["validate"] = kept
    return out


def _block(block: dict[str, Json], kinds_of: Callable[[list[str]], list[str]], always: bool) -> dict[str, Json]:
    """A match or exclude block for controllers; in an exclude directly written kinds are replaced if there are any."""
    for mode in ("any", "all"):
        if filters := block.get(mode):
            return {**block, mode: [_filter(f, kinds_of) for f in filters]}
    resources = block.get("resources") or {}
    if not always and not resources.get("kinds"):
        return block
    # Directly written kinds become the controllers whatever they are: the rule was chosen because Pod is among them.
    out = dict(resources)
    out["kinds"] = kinds_of(["Pod"])
    return {**block, "resources": _inner(out, kinds_of)}


def _filter(value: dict[str, Json], kinds_of: Callable[[list[str]], list[str]]) -> dict[str, Json]:
    resources = dict(value.get("resources") or {})
    kinds = kinds_of(resources.get("kinds") or [])
    if kinds:
        resources["kinds"] = kinds
    return {**value, "resources": _inner(resources, kinds_of)}


def _inner(resources: dict[str, Json], kinds_of: Callable[[list[str]], list[str]]) -> dict[str, Json]:
    """The guide's ``excludeResources`` inside resources follow as an exclude does."""
    inner = resources.get("excludeResources")
    if inner and inner.get("kinds"):
        resources["excludeResources"] = {**inner, "kinds": kinds_of(inner["kinds"])}
    return resources


def _loop(entry: dict[str, Json], steps: tuple[str, ...]) -> dict[str, Json]:
    """A loop of a mutation for controllers: the order is lost (Kyverno quirk). Inner loops stay, where the reference
    would put null in place of the template."""
    kept: dict[str, Json] = {key: entry[key] for key in ("list", "context", "preconditions") if key in entry}
    if entry.get("foreach"):
        return {**kept, "foreach": [_loop(inner, steps) for inner in entry["foreach"]]}
    if entry.get("patchStrategicMerge") is not None:
        kept["patchStrategicMerge"] = _wrap(entry["patchStrategicMerge"], steps)
    return kept


def _wrap(value: Json, steps: tuple[str, ...]) -> Json:
    for step in reversed(steps):
        value = {"spec": {step: value}}
    return value


def _cut(name: str) -> str:
    data = name.encode()
    return name if len(data) <= MAX_NAME else data[:MAX_NAME].decode(errors="ignore")


def _shift_references(message: str, shift: str, pivot: str) -> str:
    """Moves ``$( )`` references of a message that name a place in the pattern to where the pattern has gone."""

    def moved(m: re.Match[str]) -> str:
        text = m.group()
        if pivot == "anyPattern":
            return re.sub(r"anyPattern/([^/)]*)", rf"anyPattern/\1/{shift}", text)
        return text.replace(pivot, f"{pivot}/{shift}")

    return _REFERENCE.sub(moved, message)
