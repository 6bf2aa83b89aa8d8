"""Random ClusterPolicies whose rules are CEL expressions on Pods: what fused code follows of CEL, put together anyhow.

Most expressions say something of a field that may not be there, or of each container; types are those of a Pod for the
most part, so that many of them hold on some objects. ``fuzz.targets.f17_fused_agrees`` compiles them.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

_CONTAINER: Final = ("name", "image", "imagePullPolicy")
_LISTS: Final = (
    "object.spec.containers",
    "object.spec.?initContainers.orValue([])",
    "(object.spec.containers + object.spec.?initContainers.orValue([]))",
    "(has(object.spec.volumes) ? object.spec.volumes : [])",
    "object.spec.?ephemeralContainers.orValue([])",
)
_BOOLS: Final = ("privileged", "runAsNonRoot", "readOnlyRootFilesystem")
_TEXTS: Final = ("a", "c", "ghcr.io/", ":latest", "v", "", "app", "x")
_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=")


def policies(rng: Random, count: int) -> list[dict[str, Any]]:
    """``count`` policies of one rule with one or two expressions."""
    return [_policy(rng, number) for number in range(count)]


def _policy(rng: Random, number: int) -> dict[str, Any]:
    expressions = [{"expression": _whole(rng, 2), "message": "m"} for _ in range(rng.choice((1, 1, 2)))]
    cel: dict[str, Any] = {"expressions": expressions}
    if rng.random() < 0.3:
        cel["variables"] = [{"name": "v", "expression": _whole(rng, 1)}]
        expressions[0]["expression"] = f"variables.v || ({expressions[0]['expression']})"
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": f"cel-{number}"},
        "spec": {
            "rules": [{"name": "r", "match": {"any": [{"resources": {"kinds": ["Pod"]}}]}, "validate": {"cel": cel}}]
        },
    }


def _whole(rng: Random, depth: int) -> str:
    """A condition on the object."""
    if depth and rng.random() < 0.35:
        return _joined(rng, _whole(rng, depth - 1), _whole(rng, depth - 1))
    match rng.randrange(6):
        case 0:
            return f"{rng.choice(_LISTS)}.{rng.choice(('all', 'all', 'all', 'exists'))}(c, {_of_one(rng, 2)})"
        case 1:
            return f"size({rng.choice(_LISTS)}) {rng.choice(_SIGNS)} {rng.randrange(5)}"
        case 2:
            return f"object.metadata.?labels[?'{rng.choice(('team', 'app', 'x'))}'].orValue('') != ''"
        case 3:
            return f"has(object.metadata.labels) && '{rng.choice(('team', 'x'))}' in object.metadata.labels"
        case 4:
            return _of_flag(rng, "object.spec.hostNetwork")
        case _:
            return f"{rng.choice(_LISTS)}.all(c, {_of_one(rng, 2)})"


def _of_one(rng: Random, depth: int) -> str:
    """A condition on an element."""
    if depth and rng.random() < 0.45:
        return _joined(rng, _of_one(rng, depth - 1), _of_one(rng, depth - 1))
    field = f"c.{rng.choice(_CONTAINER)}"
    text = rng.choice(_TEXTS)
    match rng.randrange(9):
        case 0:
            return f"has(c.{rng.choice(('resources.limits', 'securityContext', 'image', 'name'))})"
        case 1:
            return f"{field}.{rng.choice(('startsWith', 'endsWith', 'contains'))}('{text}')"
        case 2:
            return f"{field} {rng.choice(('==', '!='))} '{text}'"
        case 3:
            return f"{field} in {list(rng.sample(_TEXTS, 3))}"
        case 4:
            return f"{field}.matches('^[a-z./]+(:.*)?$')"
        case 5:
            return _of_flag(rng, f"c.securityContext.{rng.choice(_BOOLS)}")
        case 6:
            otherwise, wanted = rng.choice(("true", "false")), rng.choice(("true", "false"))
            return f"c.?securityContext.?{rng.choice(_BOOLS)}.orValue({otherwise}) == {wanted}"
        case 7:
            ports = "(has(c.ports) ? c.ports : [])"
            return f"{ports}.all(p, !has(p.hostPort) || p.hostPort {rng.choice(_SIGNS)} {rng.choice((0, 80, 8080))})"
        case _:
            adds = "c.?securityContext.?capabilities.?add.orValue([])"
            return f"{adds}.all(x, x in ['CHOWN', 'NET_BIND_SERVICE'])"


def _of_flag(rng: Random, path: str) -> str:
    base, _, name = path.rpartition(".")
    asked = f"!has({base}) || !has({base}.{name}) || "
    said = rng.choice((f"{path} == false", f"{path} != true", f"!{path}", f"{path} == null"))
    return f"({asked if rng.random() < 0.7 else ''}{said})"


def _joined(rng: Random, a: str, b: str) -> str:
    match rng.randrange(4):
        case 0:
            return f"({a} || {b})"
        case 1:
            return f"(!({a}) || {b})"
        case 2:
            return f"({a} ? {b} : {rng.choice(('true', 'false'))})"
    return f"({a} && {b})"
