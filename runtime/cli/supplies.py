"""What a test file or the flags of ``apply`` supply for context entries, read into a
:class:`runtime.context.outside.Outside`.

Every reader raises :class:`Problem` with the file's name for whatever is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import reason
from runtime.cli.files import identity, read_resources, read_values
from runtime.cli.offline import GLOBAL_KIND
from runtime.cli.problem import Problem
from runtime.cli.values import checked_fields
from runtime.context.outside import Outside, Response
from vm.host import HostCall
from vm.values import MISSING, Err, Value

if TYPE_CHECKING:
    from runtime.context.global_entries import GlobalEntries
    from runtime.context.objects import Objects

_METHODS: Final = ("GET", "POST")
_STATUSES: Final = range(100, 600)


# Test files


def of_test(raw: Mapping[str, Any], folder: Path, origin: Path, entries: Sequence[dict[str, Any]] = ()) -> Outside:
    """What the fields ``clusterResources``, ``apiCallResponses``, ``globalContextEntries`` and ``context`` of a test
    supply; ``entries`` are those of the global context that stand among its policies."""
    responses = tuple(
        _response(r, f"{origin}: apiCallResponses[{i}]") for i, r in _maps(raw, "apiCallResponses", origin)
    )
    seen: set[tuple[str, str]] = set()
    for response in responses:
        if (response.method, response.url) in seen:
            raise Problem(f"{origin}: apiCallResponses: {response.method} {response.url} is given twice")
        seen.add((response.method, response.url))
    outside = Outside(responses)
    held: list[dict[str, Any]] = []
    if raw.get("clusterResources"):
        found, more = _cluster_resources(raw, folder, origin)
        held = found
        outside = replace(outside, objects=_objects(found, more))
    mocks = list(_maps(raw, "globalContextEntries", origin))
    mocked = {str(m.get("name") or ""): _mock(m, folder, f"{origin}: globalContextEntries[{i}]") for i, m in mocks}
    declared = [*entries, *(o for o in held if o.get("kind") == GLOBAL_KIND)]
    if mocked or declared:
        outside = replace(outside, entries=_global_entries(mocked, declared, outside))
    images = _images(raw, folder, origin)
    return replace(outside, images=images) if images else outside


def _response(raw: Mapping[str, Any], origin: str) -> Response:
    checked_fields(raw, ("url", "urlPath", "method", "response"), origin)
    url = raw.get("urlPath") or raw.get("url")
    if type(url) is not str or not url or (raw.get("url") and raw.get("urlPath")):
        raise Problem(f"{origin}: one of url and urlPath must be given")
    method = raw.get("method") or "GET"
    if method not in _METHODS:
        raise Problem(f"{origin}: method is none of {', '.join(_METHODS)}")
    response = raw.get("response") or {}
    if type(response) is not dict:
        raise Problem(f"{origin}: response is no map")
    checked_fields(response, ("statusCode", "body"), f"{origin}.response")
    status = response.get("statusCode") or 200
    if type(status) is not int or status not in _STATUSES:
        raise Problem(f"{origin}: statusCode is no HTTP status")
    body = response.get("body")
    if body is not None and type(body) not in (dict, list):
        raise Problem(f"{origin}: body is no map and no list")
    return Response(url, method, status, body if body is not None else {})


def _mock(raw: Mapping[str, Any], folder: Path, origin: str) -> Any:
    from runtime.context.global_entries import mocked

    checked_fields(raw, ("name", "data", "resources", "resourceFiles", "fieldPath", "projections"), origin)
    if type(raw.get("name")) is not str or not raw["name"]:
        raise Problem(f"{origin}: has no name")
    if sum(raw.get(key) is not None for key in ("data", "resources", "resourceFiles")) != 1:
        raise Problem(f"{origin}: one of data, resources and resourceFiles must be given")
    for i, projection in _maps(raw, "projections", origin):
        checked_fields(projection, ("name", "path"), f"{origin}.projections[{i}]")
        if not projection.get("name") or not projection.get("path"):
            raise Problem(f"{origin}.projections[{i}]: name and path must be given")
    resources = [r for _, r in _maps(raw, "resources", origin)]
    files = raw.get("resourceFiles") or []
    if files:
        resources += read_resources(folder / str(f) for f in files)
    return mocked(raw, resources)


def _cluster_resources(
    raw: Mapping[str, Any], folder: Path, origin: Path
) -> tuple[list[dict[str, Any]], tuple[dict[str, Any], ...]]:
    from runtime.cli.crdfiles import read_crds

    objects: list[dict[str, Any]] = []
    crds: list[dict[str, Any]] = []
    for path in (folder / str(p) for p in raw["clusterResources"]):
        for document in read_values(path):
            if document is None:
                continue
            if type(document) is not dict or document.get("kind") != "ClusterResource":
                raise Problem(f"{path}: is no ClusterResource")
            checked_fields(document, ("apiVersion", "kind", "metadata", "spec"), str(path))
            spec = document.get("spec") or {}
            checked_fields(spec, ("crds", "resources"), f"{path}: spec")
            objects += [o for _, o in _maps(spec, "resources", path)]
            names = [path.parent / str(c) for c in spec.get("crds") or ()]
            crds += read_crds(names) if names else ()
    return objects, tuple(crds)


def _images(raw: Mapping[str, Any], folder: Path, origin: Path) -> dict[str, Any]:
    path = raw.get("context")
    if not path:
        return {}
    found: dict[str, Any] = {}
    for document in read_values(folder / str(path)):
        spec = document.get("spec") if type(document) is dict else None
        for i, image in _maps(spec or {}, "images", folder / str(path)):
            if type(image.get("image")) is not str:
                raise Problem(f"{folder / str(path)}: images[{i}] names no image")
            found[image["image"]] = image
    return found


# Flags


@contextmanager
def of_flags(
    args: argparse.Namespace, resources: Sequence[dict[str, Any]] = (), entries: Sequence[dict[str, Any]] = ()
) -> Iterator[Outside]:
    """What ``--cluster-dump``, ``--replay`` and ``--record`` supply.

    A dump is the whole cluster. Without one the ``resources`` that policies are applied to count as given, and nobody
    knows of kinds of which there is none. ``entries`` are those of the global context that stand among the policies. A
    recording is written when the block ends.
    """
    from runtime.cli.crdfiles import read_crds

    dump = read_resources(args.cluster_dump) if args.cluster_dump else []
    held = dump or list(resources)
    outside = Outside(objects=_objects(held, read_crds(args.crds), whole=bool(dump))) if held else Outside()
    declared = [*entries, *(o for o in held if o.get("kind") == GLOBAL_KIND)]
    if declared:
        outside = replace(outside, entries=_global_entries({}, declared, outside))
    if args.replay:
        outside = replace(outside, recording=_recording(args.replay))
    if not args.record:
        yield outside
        return
    from runtime.context.live import Live
    from runtime.context.recording import Recording
    from runtime.k8s.errors import Unreachable

    made = Recording()
    try:
        with Live(args.kubeconfig) as live:

            def asked(call: HostCall) -> Value:
                answer = live.ask(call)
                made.add(call, answer)
                return answer

            # Everything is asked of the cluster, so that the recording answers by itself.
            yield Outside(recording=outside.recording, live=asked)
    except Unreachable as error:
        raise Problem(f"--record: the cluster cannot be reached: {error}") from None
    try:
        Path(args.record).write_bytes(made.text())
    except OSError as error:
        raise Problem(f"{args.record}: {reason(error)}") from None


def _recording(path: str) -> Any:
    from runtime.context.recording import Recording, RecordingError

    documents = [d for d in read_values(Path(path)) if d is not None]
    try:
        return Recording.read(documents[0] if len(documents) == 1 else None)
    except RecordingError as error:
        raise Problem(f"{path}: {error}") from None


# Both


def _objects(objects: Iterable[dict[str, Any]], crds: Sequence[dict[str, Any]], *, whole: bool = True) -> Objects:
    from runtime.context.objects import Objects

    return Objects(objects, crds, whole=whole)


def _global_entries(mocks: Mapping[str, Any], entries: Iterable[dict[str, Any]], outside: Outside) -> GlobalEntries:
    from runtime.context.global_entries import GlobalEntries, declared

    objects = outside.objects or _objects((), (), whole=False)
    found: dict[str, Any] = {}
    for entry in entries:
        name = identity(entry)[3]
        found[name] = declared(entry, objects, _caller(outside, name))
    return GlobalEntries({**found, **mocks})


def _caller(outside: Outside, name: str) -> Callable[[dict[str, Any]], Value]:
    def call(payload: dict[str, Any]) -> Value:
        found = outside.api_call(payload)
        return (
            Err("host", f"nothing answers the API call of the global context entry {name}")
            if found is MISSING
            else found
        )

    return call


def _maps(raw: Mapping[str, Any], key: str, origin: Any) -> list[tuple[int, dict[str, Any]]]:
    value = raw.get(key)
    if value is None:
        return []
    if type(value) is not list or any(type(v) is not dict for v in value):
        raise Problem(f"{origin}: {key} is no list of maps")
    return list(enumerate(value))
