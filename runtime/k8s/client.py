"""The one way to the API server: JSON objects in and out, by resource, over the official client's connection.

``kubernetes.aio`` brings configuration, credentials and their refresh; its model classes are not used, since objects
stay the dicts that policies read. Everything in ``runtime.controllers`` takes the :class:`KubeClient` protocol, which
the fake of the tests implements too. Raises :mod:`runtime.k8s.errors` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, urlencode

import aiohttp
import orjson

from runtime.k8s.errors import ApiProblem, Expired, Unreachable

Object = dict[str, Any]

Verb = Literal["list", "get", "create", "update", "patch", "delete", "watch"]
Asked = Callable[[Verb, "Resource", str], None]

REQUEST_SECONDS: Final = 30.0
WATCH_SECONDS: Final = 290
"""After this the API server ends a watch, and we open the next: a silent dead connection is noticed in this time."""

MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API: group ("" for the core), version, plural name, kind, whether it lives in namespaces."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, an object, or a part of one."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(p, safe="") for p in (name, subresource) if p]
        return "/" + "/".join(parts)


class KubeClient(Protocol):
    """What controllers ask of an API server. ``query`` holds URL parameters."""

    async def list(self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None) -> Object: ...
    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...
    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object: ...
    async def replace(self, resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object: ...
    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", subresource: str = ""
    ) -> Object: ...
    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: Mapping[str, Any] | None = None
    ) -> bool: ...
    async def raw(self, method: str, path: str, body: Any = None) -> Any: ...
    def pages(
        self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None, *, metadata: bool = False
    ) -> AsyncIterator[Object]: ...
    def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
        *,
        metadata: bool = False,
    ) -> AsyncIterator[Object]: ...


class HttpKubeClient:
    """:class:`KubeClient` over a real connection. Made by :func:`connect`."""

    def __init__(self, api: Any, asked: Asked = lambda verb, resource, namespace: None) -> None:
        """``asked`` is told of every request by resource, for the metrics."""
        self._asked = asked
        # The client library's annotations are half there; what is used of it is all in this class.
        self._api = api
        self._host: str = api.configuration.host
        self.around: Callable[[str, str], AbstractContextManager[None]] | None = None
        """Entered around each request, with its method and path: a span where requests are traced."""

    async def list(self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None) -> Object:
        """All objects; pages of 500 are joined, so that one answer never grows with the cluster."""
        items: list[Any] = []
        page: Object = {}
        async for page in self.pages(resource, namespace, query):
            items += page.get("items") or ()
        return {**page, "items": items}

    async def pages(
        self, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None, *, metadata: bool = False
    ) -> AsyncIterator[Object]:
        """The same, page by page: nobody holds more than one. ``metadata``: of each object its metadata alone.

        Raises :class:`Expired` when the pages have lasted so long that the rest cannot be had.
        """
        self._asked("list", resource, namespace)
        more: dict[str, str] = {"limit": "500", **(query or {})}
        while True:
            page = await self._json(
                "GET", f"{resource.path(namespace)}?{urlencode(more)}", accept=_METADATA_LIST if metadata else ""
            )
            yield page
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            more["continue"] = token

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        self._asked("get", resource, namespace)
        return await self._json("GET", resource.path(namespace, name))

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        self._asked("create", resource, namespace)
        return await self._json("POST", resource.path(namespace), obj)

    async def replace(self, resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        self._asked("update", resource, namespace)
        return await self._json("PUT", resource.path(namespace, obj["metadata"]["name"], subresource), obj)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", subresource: str = ""
    ) -> Object:
        """A JSON merge patch."""
        self._asked("patch", resource, namespace)
        return await self._json("PATCH", resource.path(namespace, name, subresource), patch, MERGE_PATCH)

    async def apply(self, resource: Resource, obj: Object, manager: str, namespace: str = "") -> Object:
        """Server-side apply, taking over fields that others own."""
        self._asked("patch", resource, namespace)
        query = urlencode({"fieldManager": manager, "force": "true"})
        path = f"{resource.path(namespace, obj['metadata']['name'])}?{query}"
        return await self._json("PATCH", path, obj, APPLY_PATCH)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether it was there. ``options`` are those of Kubernetes' DeleteOptions: preconditions that are not met are
        a conflict."""
        self._asked("delete", resource, namespace)
        body = None if options is None else {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            await self._json("DELETE", resource.path(namespace, name), body)
        except ApiMissing:
            return False
        return True

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
        *,
        metadata: bool = False,
    ) -> AsyncIterator[Object]:
        """Events from a resource version on, bookmarks included, until the API server ends the watch. ``query`` may
        hold a label selector; ``metadata``: of each object its metadata alone.

        Raises :class:`Expired` when the version is too old.
        """
        self._asked("watch", resource, namespace)
        asked = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            **(query or {}),
        }
        path = f"{resource.path(namespace)}?{urlencode(asked)}"
        # Longer than the server's own end: a watch that outlives it hangs on a dead connection.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=WATCH_SECONDS + 30)
        response = await self._send("GET", path, accept=_METADATA if metadata else "application/json", timeout=timeout)
        try:
            async for line in _lines(response):
                event = orjson.loads(line)
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    raise _problem(int(status.get("code") or 500), status)
                yield event
        except (aiohttp.ClientError, TimeoutError, ConnectionError, orjson.JSONDecodeError) as error:
            raise Unreachable(_reason(error)) from None
        finally:
            response.close()

    async def aggregated(self, path: str) -> Any:
        """The discovery document of ``/api`` or ``/apis`` in its one-request form."""
        return await self._json("GET", path, accept=_DISCOVERY)

    async def raw(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded answer to a request by path, query included: what an ``apiCall`` of a policy asks for."""
        return await self._json(method, path, body)

    async def close(self) -> None:
        await self._api.close()

    async def _json(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", accept: str = ""
    ) -> Object:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        response = await self._send(method, path, body, content_type, accept or "application/json", timeout)
        try:
            data = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(_reason(error)) from None
        finally:
            response.release()
        try:
            decoded: Object = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise Unreachable(f"what answers at {self._host} is no api server: its answer is no json") from None
        return decoded

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        if self.around is not None:
            with self.around(method, path):
                return await self._answer(method, path, body, content_type, accept, timeout)
        return await self._answer(method, path, body, content_type, accept, timeout)

    async def _answer(
        self, method: str, path: str, body: Any, content_type: str, accept: str, timeout: aiohttp.ClientTimeout | None
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": "thesmos"}
        # Refreshes a token that has come to its end (service account tokens live for an hour).
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, None)
        try:
            answer = await self._api.rest_client.request(
                method, self._host + path, headers=headers, body=body, _request_timeout=timeout
            )
            response: aiohttp.ClientResponse = answer.response
            if response.status < 400:
                return response
            data = await response.read()
            response.release()
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise Unreachable(_reason(error)) from None
        try:
            status: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            status = data.decode(errors="replace")
        raise _problem(response.status, status)


class ApiMissing(ApiProblem):
    """404: the object (or its kind) is not there."""


def _problem(code: int, status: Any) -> ApiProblem:
    match code:
        case 404:
            return ApiMissing.of_status(code, status)
        case 410:
            return Expired.of_status(code, status)
        case _:
            return ApiProblem.of_status(code, status)


async def connect(kubeconfig: str | None, asked: Asked) -> HttpKubeClient:
    """A client by a kubeconfig file, or by the service account of the Pod this runs in when None.

    Raises :class:`Unreachable` for a configuration that cannot be used; the server itself is not asked.
    """
    import yaml
    from kubernetes import aio

    client: Any = aio.client
    config: Any = aio.config
    configuration = client.Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)
        else:
            # The library takes a missing file for an empty one, and tells of it in the log.
            Path(kubeconfig).open("rb").close()
            await config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
    except (config.ConfigException, OSError, yaml.YAMLError) as error:
        what = kubeconfig or "the service account of this Pod"
        said = error.strerror if isinstance(error, OSError) and error.strerror else _reason(error)
        raise Unreachable(f"{what}: {said[:1].lower()}{said[1:]}") from None
    # We have our own back-off, which watches and lists share. (0 or False would mean: for ever.)
    configuration.retries = None
    # Watches stay open, for times to live and scans one for each kind of the cluster; requests must not wait for them.
    configuration.connection_pool_maxsize = 512
    return HttpKubeClient(client.ApiClient(configuration), asked)


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Lines of a stream. ``readline`` of aiohttp refuses lines over 64 KiB, and a policy may be longer."""
    rest = b""
    async for chunk in response.content.iter_any():
        rest += chunk
        *whole, rest = rest.split(b"\n")
        for line in whole:
            if line:
                yield line
    if rest.strip():
        yield rest


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    text = str(error).strip()
    return text.splitlines()[0] if text else "the connection failed"
