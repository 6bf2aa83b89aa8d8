"""Answers context entries from a Kubernetes API server: ConfigMaps, API calls, and services by the one client.

Used by the webhook (:mod:`runtime.controllers.lookups`) and by ``apply --record`` (:mod:`runtime.context.live`). What a
policy may ask has been decided before (:mod:`runtime.context.tenancy`). An answer that cannot be had is an ``Err`` in
the words of the reference.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from runtime.context.apipath import PathError, split
from runtime.context.global_live import GlobalContext
from runtime.context.outside import config_map_value
from runtime.context.services import Services
from runtime.context.tenancy import asker
from runtime.k8s.client import KubeClient
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import CONFIG_MAP
from vm.host import HostCall
from vm.intrinsics.text import json_text
from vm.values import Err, Value

KEPT_SECONDS: Final = 1.0
"""How old a ConfigMap may be: a burst of requests asks for the same one."""
_MAX_KEPT: Final = 256


class Answers:
    """``client`` asks the API server, ``services`` other ones; None: services are not called."""

    def __init__(self, client: KubeClient, services: Services | None) -> None:
        self._client = client
        self._services = services
        self._global = GlobalContext(client, self._api_call)
        self._kept: dict[str, tuple[float, Value]] = {}

    async def ask(self, call: HostCall) -> Value:
        """The answer to the call of a context entry."""
        match call.kind:
            case "configmap":
                return await self._config_map(call.payload["namespace"], call.payload["name"])
            case "apicall":
                return await self._api_call(call.payload, str(asker(call, "entry")))
            case "globalcontext":
                return await self._global.read(str(call.payload.get("name")))
            case "imagedata":
                reference = call.payload.get("reference")
                return Err("host", f"failed to fetch image descriptor: {reference}, error: no registry is read")
        return Err("host", f"nobody answers calls of the kind {call.kind}")

    async def _config_map(self, namespace: str, name: str) -> Value:
        key = json_text([namespace, name])
        kept, now = self._kept.get(key), time.monotonic()
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept[1]
        try:
            found = config_map_value(await self._client.get(CONFIG_MAP, name, namespace))
        except (ApiProblem, Unreachable, TimeoutError) as problem:
            return Err("host", f"failed to get configmap {namespace}/{name} : {_said(problem)}")
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[key] = now, found
        return found

    async def _api_call(self, payload: Mapping[str, Any], entry: str) -> Value:
        url, method = payload.get("urlPath"), payload.get("method") or "GET"
        if url is None:
            if self._services is None:
                return Err("host", f"services are not called here (APICall {entry})")
            return await self._services.call(payload, entry)
        begin = f"failed to {method} resource with raw url: {url}: "
        try:
            body = payload.get("data") or {} if method == "POST" else None
            return await self._client.raw(method, written(url), body)
        except ApiProblem as problem:
            return Err("host", begin + ("permission denied: " if problem.code in (401, 403) else "") + _said(problem))
        except (Unreachable, TimeoutError, PathError) as problem:
            return Err("host", begin + _said(problem))


def written(url: str) -> str:
    """A path as it is sent: its steps escaped once, whatever way they were written. Raises :class:`PathError`."""
    steps, query = split(url)
    path = "/" + "/".join(quote(step, safe=":") for step in steps)
    return f"{path}?{urlencode(query)}" if query else path


def _said(problem: Exception) -> str:
    return str(problem) or "no answer in time"
