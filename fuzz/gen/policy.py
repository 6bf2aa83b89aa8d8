"""Policies: well-formed ones around a resource (typed), and ones with a part replaced by anything (untyped)."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from fuzz.gen import jmes, pattern
from fuzz.gen import resource as res
from fuzz.gen.maker import OPERATORS

KINDS = ("Pod", "Deployment", "CronJob", "ConfigMap", "Namespace", "v1/Pod", "apps/v1/Deployment", "*/Pod")

_globs = st.sampled_from(("*", "?*", "team-*", "we?", "default", "web", "kube-*"))

selectors = st.one_of(
    st.fixed_dictionaries(
        {
            "matchLabels": st.dictionaries(
                st.sampled_from((*res.LABEL_KEYS, "te*")),
                st.one_of(st.sampled_from(res.LABEL_VALUES), _globs),
                max_size=2,
            )
        }
    ),
    st.fixed_dictionaries(
        {
            "matchExpressions": st.lists(
                st.one_of(
                    st.fixed_dictionaries(
                        {
                            "key": st.sampled_from(res.LABEL_KEYS),
                            "operator": st.sampled_from(("Exists", "DoesNotExist")),
                        }
                    ),
                    st.fixed_dictionaries(
                        {
                            "key": st.sampled_from(res.LABEL_KEYS),
                            "operator": st.sampled_from(("In", "NotIn")),
                            "values": st.lists(st.sampled_from(res.LABEL_VALUES), min_size=1, max_size=2),
                        }
                    ),
                ),
                min_size=1,
                max_size=2,
            )
        }
    ),
)


@st.composite
def filters(draw: st.DrawFn, kinds_needed: bool) -> dict[str, Any]:
    """The ``resources`` of one match or exclude entry."""
    made: dict[str, Any] = {}
    if kinds_needed or draw(st.booleans()):
        made["kinds"] = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True))
    extras: dict[str, st.SearchStrategy[Any]] = {
        "names": st.lists(_globs, min_size=1, max_size=2),
        "namespaces": st.lists(st.one_of(res.namespaces, _globs), min_size=1, max_size=2),
        "annotations": st.dictionaries(st.sampled_from(res.ANNOTATION_KEYS), _globs, min_size=1, max_size=1),
        "selector": selectors,
        "operations": st.lists(st.sampled_from(("CREATE", "UPDATE")), min_size=1, max_size=2, unique=True),
    }
    wanted = draw(st.lists(st.sampled_from(sorted(extras)), max_size=2, unique=True))
    for name in wanted:
        made[name] = draw(extras[name])
    if not made:
        made["namespaces"] = ["team-*"]
    return made


@st.composite
def match_blocks(draw: st.DrawFn, kinds_needed: bool = True) -> dict[str, Any]:
    mode = draw(st.sampled_from(("any", "all", "direct", "kinds")))
    if mode == "kinds":
        return {"any": [{"resources": {"kinds": ["Pod"]}}]}
    if mode == "direct":
        return {"resources": draw(filters(kinds_needed))}
    entries = draw(st.lists(filters(kinds_needed), min_size=1, max_size=2))
    return {mode: [{"resources": e} for e in entries]}


@st.composite
def variables_for(draw: st.DrawFn, document: dict[str, Any]) -> str:
    """A ``{{ }}`` text over ``request.object``."""
    query = draw(jmes.queries_for({"request": {"object": document, "operation": "CREATE", "namespace": "default"}}))
    if draw(st.booleans()):
        query = f"{query} || ''"
    return "{{ " + query + " }}"


@st.composite
def conditions_for(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    key = draw(st.one_of(variables_for(document), res.scalars, st.sampled_from(("{{ request.operation }}",))))
    value = draw(
        st.one_of(
            res.scalars,
            st.lists(st.sampled_from(res.LABEL_VALUES + res.QUANTITIES + ("we*", "1-5")), max_size=3),
            pattern.scalar_texts(),
        )
    )
    made = {"key": key, "operator": draw(st.sampled_from(OPERATORS)), "value": value}
    if isinstance(made["key"], str) and "request.operation" in made["key"]:
        made["value"] = draw(st.sampled_from(("CREATE", "UPDATE")))
        made["operator"] = draw(st.sampled_from(("Equals", "NotEquals")))
    return made


@st.composite
def condition_blocks_for(draw: st.DrawFn, document: dict[str, Any]) -> Any:
    conditions = st.lists(conditions_for(document), min_size=1, max_size=2)
    return draw(
        st.one_of(
            conditions,
            st.fixed_dictionaries({"any": conditions}),
            st.fixed_dictionaries({"all": conditions}),
            st.fixed_dictionaries({"any": conditions, "all": conditions}),
        )
    )


def _below_metadata(made: Any) -> Any:
    return {k: v for k, v in made.items() if k not in ("apiVersion", "kind")} if isinstance(made, dict) else made


@st.composite
def rules_for(draw: st.DrawFn, document: dict[str, Any], name: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"name": name, "match": draw(match_blocks())}
    if draw(st.integers(0, 3)) == 0:
        rule["exclude"] = draw(match_blocks(kinds_needed=False))
    if draw(st.integers(0, 2)) == 0:
        rule["preconditions"] = draw(condition_blocks_for(document))
    match draw(st.sampled_from(("pattern", "pattern", "anyPattern", "deny", "merge", "json"))):
        case "pattern":
            rule["validate"] = {"pattern": draw(patterns_of(document))}
        case "anyPattern":
            rule["validate"] = {"anyPattern": draw(st.lists(patterns_of(document), min_size=1, max_size=2))}
        case "deny":
            rule["validate"] = {"deny": {"conditions": draw(condition_blocks_for(document))}}
        case "merge":
            patch = _below_metadata(draw(pattern.merge_patches_for(document)))
            rule["mutate"] = {"patchStrategicMerge": patch or {"metadata": {"labels": {"+(app)": "web"}}}}
        case _:
            rule["mutate"] = {"patchesJson6902": draw(json_patches_for(document))}
    if "validate" in rule and draw(st.booleans()):
        rule["validate"]["message"] = draw(
            st.one_of(st.sampled_from(("no", "labels are required.", "")), variables_for(document))
        )
    return rule


@st.composite
def patterns_of(draw: st.DrawFn, document: dict[str, Any]) -> Any:
    made = _below_metadata(draw(pattern.patterns_for(document)))
    if not isinstance(made, dict) or not made:
        made = {"metadata": draw(pattern.patterns_for(document["metadata"]))}
    if draw(st.integers(0, 5)) == 0:
        made["metadata"] = {"labels": {"app": draw(variables_for(document))}}
    return made


@st.composite
def json_patches_for(draw: st.DrawFn, document: dict[str, Any]) -> str:
    """A JSON patch as the YAML text that policies hold."""
    import json

    operations = []
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from([p for p in res.paths_of(document) if p]))
        pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
        match draw(st.sampled_from(("add", "replace", "remove", "append"))):
            case "remove":
                operations.append({"op": "remove", "path": pointer})
            case "append":
                operations.append({"op": "add", "path": pointer + "/-", "value": draw(res.scalars)})
            case op:
                operations.append({"op": op, "path": pointer, "value": draw(st.one_of(res.scalars, res.labels))})
    return json.dumps(operations)


@st.composite
def policies_for(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """A well-formed ClusterPolicy or Policy whose rules are about a resource."""
    rules = [draw(rules_for(document, f"rule-{i}")) for i in range(draw(st.integers(1, 2)))]
    spec: dict[str, Any] = {"background": False, "rules": rules}
    if draw(st.booleans()):
        spec["validationFailureAction"] = draw(st.sampled_from(("Enforce", "Audit")))
    if draw(st.integers(0, 3)) == 0:
        spec["applyRules"] = draw(st.sampled_from(("One", "All")))
    made: dict[str, Any] = {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "generated"},
        "spec": spec,
    }
    if draw(st.integers(0, 4)) == 0:
        made["metadata"]["annotations"] = {
            "pod-policies.kyverno.io/autogen-controllers": draw(
                st.sampled_from(("none", "Deployment", "Deployment,CronJob"))
            )
        }
    if draw(st.integers(0, 5)) == 0:
        made["kind"] = "Policy"
        made["metadata"]["namespace"] = draw(res.namespaces)
    return made


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A resource and a policy about it, or about one like it."""
    resource = draw(res.resources)
    about = resource if draw(st.integers(0, 4)) else draw(res.pods)
    return draw(policies_for(about)), resource


@st.composite
def odd_policies(draw: st.DrawFn) -> dict[str, Any]:
    """A policy in which one node is replaced by anything: the untyped twin."""
    made: dict[str, Any] = copy.deepcopy(draw(cases())[0])
    path = draw(st.sampled_from([p for p in res.paths_of(made) if len(p) > 1]))
    holder: Any = made
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = draw(st.one_of(res.json_values, pattern.patterns))
    return made
