"""What context entries are answered from without a cluster, in this order: values of a loop, mocked responses and
global entries, given objects, image data, a recording, and last a cluster that is being recorded.

Made by the commands from their files (:mod:`runtime.cli.supplies`). What nobody supplied is ``Err unsupplied`` in the
words of a missing key that names the entry; the code of the entry makes it an error that no default hides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from runtime.context.tenancy import asker
from vm.host import HostCall
from vm.intrinsics.text import json_text
from vm.values import MISSING, Err, Value

if TYPE_CHECKING:
    from runtime.context.global_entries import GlobalEntries
    from runtime.context.objects import Objects
    from runtime.context.recording import Recording

CONTEXT_CALLS: Final = ("configmap", "apicall", "globalcontext", "imagedata")


@dataclass(frozen=True, slots=True)
class Response:
    """A mocked answer to an API or service call; ``url`` is a path or a whole URL."""

    url: str
    method: str
    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything that stands in for the world outside."""

    responses: tuple[Response, ...] = ()
    entries: GlobalEntries | None = None
    objects: Objects | None = None
    images: Mapping[str, Any] | None = None
    recording: Recording | None = None
    live: Callable[[HostCall], Value] | None = None
    lacking: dict[str, None] = field(default_factory=dict, compare=False)
    """What was asked for and nobody supplied, a text for each, in order: the error itself says but the entry's name."""

    def answer(self, call: HostCall) -> Value:
        """The answer to the call of a context entry; ``Err unsupplied`` when nobody supplied one."""
        found = self._given(call)
        if found is MISSING and self.recording is not None:
            found = self.recording.find(call)
        if found is MISSING and self.live is not None:
            found = self.live(call)
        if found is MISSING:
            self.lacking[_lacking(call)] = None
            return unsupplied(call)
        return found

    def _given(self, call: HostCall) -> Value:
        payload = call.payload
        match call.kind:
            case "configmap":
                return self._config_map(payload["namespace"], payload["name"])
            case "apicall":
                return self.api_call(payload)
            case "globalcontext" if self.entries is not None:
                found = self.entries.read(str(payload.get("name")))
                if found is MISSING:
                    return Err("host", f"failed to fetch entry key={str(payload.get('name')).partition('.')[0]}")
                return MISSING if type(found) is Err and found.code == "unsupplied" else found
            case "imagedata" if self.images is not None:
                return self.images.get(str(payload.get("reference")), MISSING)
        return MISSING

    def _config_map(self, namespace: str, name: str) -> Value:
        if self.objects is None:
            return MISSING
        found = self.objects.find("", "v1", "configmaps", namespace, name)
        if type(found) is Err:
            if found.code == "unsupplied":
                return MISSING
            return Err("host", f"failed to get configmap {namespace}/{name} : {found.text}")
        return config_map_value(found)

    def api_call(self, payload: Mapping[str, Any]) -> Value:
        """The answer of mocks and objects to a call, MISSING when there is none."""
        url, method = payload.get("urlPath"), payload.get("method") or "GET"
        service = payload.get("service")
        target = url if url is not None else service.get("url") if type(service) is dict else None
        for response in self.responses:
            if (response.url, response.method) == (target, method):
                return _mocked(response, url is not None)
        if url is None or method != "GET" or self.objects is None:
            return MISSING
        found = self.objects.get(url)
        if type(found) is Err:
            if found.code == "unsupplied":
                return MISSING
            return Err("host", f"failed to {method} resource with raw url: {url}: {found.text}")
        return found


def _mocked(response: Response, api: bool) -> Value:
    if 200 <= response.status < 300:
        return response.body
    try:
        words = HTTPStatus(response.status).phrase
    except ValueError:
        words = ""
    text = f"HTTP {response.status} {words}: {json_text(response.body)}"
    return Err("host", f"failed to {response.method} resource with raw url: {response.url}: {text}" if api else text)


def config_map_value(obj: Mapping[str, Any]) -> dict[str, Any]:
    """What a ``configMap`` entry sees of the object."""
    return {"data": obj.get("data") or None, "metadata": obj.get("metadata") or {}}


def _lacking(call: HostCall) -> str:
    payload = call.payload
    service = payload.get("service")
    match call.kind:
        case "configmap":
            wanted = f"the ConfigMap {payload['namespace'] or 'default'}/{payload['name']}"
        case "apicall":
            url = service.get("url") if type(service) is dict else payload.get("urlPath")
            wanted = f"{payload.get('method') or 'GET'} {url}"
        case "globalcontext":
            wanted = f"the global context entry {payload.get('name')}"
        case _:
            wanted = f"the image {payload.get('reference')}"
    entry = asker(call, "entry")
    return (
        f"nobody supplied {wanted}, which the context entry {entry} of rule {asker(call, 'rule')} asks for:"
        f" give a value {entry} in a values file, or objects of the cluster"
    )


def unsupplied(call: HostCall) -> Err:
    """The error of an entry that nothing answers, in the words of the reference, for which it is a missing key."""
    return Err("unsupplied", f'Unknown key "{asker(call, "entry")}" in path')


def element_value(lists: Mapping[str, Sequence[Any]], call: HostCall) -> Value:
    """The value of an entry within a loop: of each name, dotted where it is a part, the one at the element's place."""
    entry, element = asker(call, "entry"), asker(call, "element")
    if type(element) is not int:
        return MISSING
    value: Value = MISSING
    for keys, values in _parts(lists):
        if keys[0] == entry and element < len(values):
            value = _put(value, keys[1:], values[element])
    return value


def _parts(lists: Mapping[str, Sequence[Any]]) -> Iterable[tuple[list[str], Sequence[Any]]]:
    from runtime.request import split_path

    return [(split_path(name), values) for name, values in lists.items() if type(values) is list]


def _put(value: Value, keys: list[str], new: Any) -> Value:
    if not keys:
        return new
    old = value if type(value) is dict else {}
    return {**old, keys[0]: _put(old.get(keys[0], MISSING), keys[1:], new)}
