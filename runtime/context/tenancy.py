"""What a policy may ask of the outside: checked here for every host, before it is asked (decision 14).

:func:`runtime.host.ask` puts each call through :func:`admitted`. A call carries the namespace of the policy it comes
from; that is taken from verified code and not from anything that a request could change. A namespaced policy reads
ConfigMaps of its own namespace, calls paths below its own namespace, copies and changes objects of its own namespace,
reads no global context, and calls no service (the last unless ``--allowHTTPInNamespacedPolicies`` lets it).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from runtime.context.apipath import ApiPath, PathError, parse
from vm.host import HostCall
from vm.values import Err

DEFAULT_NAMESPACE: Final = "default"
"""Where a ConfigMap is looked for that names no namespace, for a policy that has none either."""


def admitted(call: HostCall, *, services: bool = False) -> HostCall | Err:
    """The call with what it leaves out filled in, or why it is refused. ``services``: namespaced policies may call
    services."""
    match call.kind:
        case "configmap":
            return _config_map(call)
        case "apicall":
            return _api_call(call, services)
        case "globalcontext" if call.scope is not None:
            return Err("host", f"a policy of the namespace {call.scope} reads no global context")
        case "sources" if call.scope is not None and call.payload.get("namespace") != call.scope:
            return Err("host", f"a policy of the namespace {call.scope} reads nothing elsewhere")
        case "targets" if call.scope is not None and call.payload.get("namespace") != call.scope:
            return Err("host", f"a policy of the namespace {call.scope} changes nothing elsewhere")
    return call


def _config_map(call: HostCall) -> HostCall | Err:
    name, namespace = call.payload.get("name"), call.payload.get("namespace")
    if type(name) is not str or (namespace is not None and type(namespace) is not str):
        return Err("host", "the name and the namespace of a ConfigMap are texts")
    namespace = namespace or call.scope or DEFAULT_NAMESPACE
    if call.scope is not None and namespace != call.scope:
        entry = asker(call, "entry")
        return Err(
            "host",
            f'context entry {entry}: configMap namespace "{namespace}" is different from policy namespace '
            f'"{call.scope}"',
        )
    if not name or "/" in name or "/" in namespace or name in (".", "..") or namespace in (".", ".."):
        return Err("host", f"{namespace}/{name} names no ConfigMap")
    return replace(call, payload={**call.payload, "namespace": namespace})


def _api_call(call: HostCall, services: bool) -> HostCall | Err:
    url, method = call.payload.get("urlPath"), call.payload.get("method") or "GET"
    if method not in ("GET", "POST"):
        return Err("host", f"invalid request type {method} for APICall {asker(call, 'entry')}")
    if url is None:
        if call.scope is not None and not services:
            return Err("host", f"a policy of the namespace {call.scope} calls no service")
        return call
    if type(url) is not str:
        return Err("host", "urlPath is no text")
    try:
        path = parse(url)
    except PathError as problem:
        return Err("host", f"failed to {method} resource with raw url: {url}: {problem}")
    if call.scope is not None and not _own(path, call.scope):
        return Err("host", f"a policy of the namespace {call.scope} calls no path outside it: {url}")
    return replace(call, payload={**call.payload, "urlPath": url.strip()})


def _own(path: ApiPath, namespace: str) -> bool:
    """Whether a path lies below a namespace."""
    return path.namespace == namespace


def asker(call: HostCall, part: str) -> Any:
    """Who asks: the ``entry``, the ``rule``, or the position of the ``element``."""
    who = call.payload.get("for") if type(call.payload) is dict else None
    return who.get(part) if type(who) is dict else None
