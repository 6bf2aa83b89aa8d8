"""The webhook configurations by which the API server asks about Thesmos' own kinds: policies, exceptions, cleanup
policies, global contexts, and the label for a time to live.

They do not depend on the policies in use. ``webhookconfig`` brings them to the cluster beside those for resources;
``policyadmission`` answers their paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from runtime.cleanup import TTL_LABEL
from runtime.config import Settings
from runtime.k8s.client import Resource
from runtime.k8s.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

POLICY_PATH: Final = "/policyvalidate"
EXCEPTION_PATH: Final = "/exceptionvalidate"
GLOBAL_CONTEXT_PATH: Final = "/globalcontextvalidate"
CLEANUP_PATH: Final = "/cleanupvalidate"
"""Kyverno's is ``/validate`` of another server; here that path is the one of resources."""
TTL_PATH: Final = "/verifyttl"

ClientConfig = Callable[[str], dict[str, Any]]
"""Where the API server finds a path."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One configuration with one webhook. ``suffix`` is what its name ends with, ``webhook`` the first part of the
    webhook's name (empty: it is named like the service). A row without a path is a configuration without webhooks."""

    resource: Resource
    suffix: str
    webhook: str
    path: str
    resources: tuple[str, ...]
    failure: str
    selector: tuple[tuple[str, Any], ...] = ()
    group: str = "kyverno.io"


_ROWS: Final = (
    _Row(
        VALIDATING_WEBHOOKS,
        "policy-validating",
        "validate-policy",
        POLICY_PATH,
        ("clusterpolicies", "policies"),
        "Fail",
    ),
    # There is nothing to change in a policy, and a webhook that does nothing can only fail; tools look for the name.
    _Row(MUTATING_WEBHOOKS, "policy-mutating", "mutate-policy", "", (), ""),
    _Row(VALIDATING_WEBHOOKS, "exception-validating", "", EXCEPTION_PATH, ("policyexceptions",), "Fail"),
    _Row(VALIDATING_WEBHOOKS, "global-context-validating", "", GLOBAL_CONTEXT_PATH, ("globalcontextentries",), "Fail"),
    _Row(
        VALIDATING_WEBHOOKS,
        "cleanup-validating",
        "",
        CLEANUP_PATH,
        ("cleanuppolicies", "clustercleanuppolicies"),
        "Fail",
    ),
    # It only warns, so that nothing waits for it when nobody answers.
    _Row(
        VALIDATING_WEBHOOKS,
        "ttl-validating",
        "",
        TTL_PATH,
        ("*",),
        "Ignore",
        (("matchExpressions", ({"key": TTL_LABEL, "operator": "Exists"},)),),
        "*",
    ),
)


def own_webhooks(settings: Settings, client_config: ClientConfig) -> list[tuple[Resource, str, list[dict[str, Any]]]]:
    """Resource, name and webhooks of each configuration, as they should be."""
    return [
        (row.resource, _name(row, settings), [_webhook(row, settings, client_config)] if row.path else [])
        for row in _ROWS
    ]


def own_names(settings: Settings) -> list[tuple[Resource, str]]:
    """Resource and name of each configuration, for who watches or removes them."""
    return [(row.resource, _name(row, settings)) for row in _ROWS]


def _name(row: _Row, settings: Settings) -> str:
    return f"{settings.names.install}-{row.suffix}-webhook-cfg"


def _webhook(row: _Row, settings: Settings, client_config: ClientConfig) -> dict[str, Any]:
    names = settings.names
    return {
        "name": names.webhook(row.webhook) if row.webhook else names.server_name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(row.path),
        "failurePolicy": row.failure,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {key: list(value) for key, value in row.selector},
        "rules": [
            {
                "apiGroups": [row.group],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": list(row.resources),
                "scope": "*",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": settings.timeout,
    }
