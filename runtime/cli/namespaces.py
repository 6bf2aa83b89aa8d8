"""Says where a rule asks for the labels of namespaces that nobody has given offline.

Called by ``apply`` and ``test``. Such labels count as none, as in Kyverno, so that a rule for labelled namespaces says
nothing at all: without a word of it a run in CI would prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.cli.files import identity
from runtime.cli.values import Values
from runtime.policyset import PolicySet
from runtime.request import OPERATIONS, split_api_version


def unlabelled(policies: PolicySet, resources: Iterable[Mapping[str, Any]], values: Values) -> list[str]:
    """One text for each rule that may reach some of the resources and looks at the labels of their namespaces, where
    neither a values file nor an object tells them."""
    asking = {(p.policy.key, p.name) for p in policies.rules if p.meta.get("namespaceLabels") is True}
    if not asking:
        return []
    unknown: dict[tuple[str, str], dict[str, None]] = {}
    for resource in resources:
        api_version, kind, namespace, _ = identity(dict(resource))
        if not namespace or values.labels(namespace) is not None:
            continue
        group, version = split_api_version(api_version)
        for operation in OPERATIONS:
            found = policies.candidates(group, version, kind, "", operation, namespace)
            for _, plans in (*found.validate, *found.mutate, *found.background):
                for plan in plans:
                    if (key := (plan.policy.key, plan.name)) in asking:
                        unknown.setdefault(key, {})[namespace] = None
    return [
        f"rule {policy}/{rule} looks at the labels of namespaces, and nobody gave those of {', '.join(names)},"
        " which count as none: put them into a values file (namespaceSelector), or give the Namespace"
        for (policy, rule), names in unknown.items()
    ]
