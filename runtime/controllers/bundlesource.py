"""Policies of a cluster that come from signed bundles instead of its objects.

``runtime.controllers.cluster`` runs one :class:`BundleSources` in place of the watches of policies. It looks at each
source every few seconds, checks the signature of what is new, verifies it, and hands the policies of all sources to the
policy controller, which swaps them as a whole. A bundle that is wrong changes nothing: the last good one stays, and
log, metric and event say so.

A bundle for a cluster is made with ``thesmos compile --with-objects``: controllers follow kinds, labels and names that
stand in the policy and in no code.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from runtime.bundles import BundleProblem, load_module, read_file
from runtime.controllers.compilation import models_of, object_text, origin_of
from runtime.controllers.policy import Entry, Good, ObjectKey, PolicyController
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem, Unreachable
from runtime.k8s.resources import CONFIG_MAP, SECRET
from runtime.mismatches import Mismatches
from runtime.observe.events import FAILED, Events
from runtime.observe.metrics import Metrics
from runtime.ocilayout import LayoutProblem, parse_place, read_layout
from runtime.policyset import Tier, mentions_images
from vm.bundle import OBJECTS, BundleError
from vm.code import MAX_BUNDLE
from vm.structure import VerifyError

if TYPE_CHECKING:
    from runtime.config import Settings
    from vm.bundle import Trust
    from vm.code import Module
    from vm.host import Imports

log = logging.getLogger("thesmos.bundles")

LOOK: Final = 3.0
"""Seconds between two looks at the sources."""
SUFFIX: Final = ".thb"
PACKED: Final = SUFFIX + ".gz"
"""How keys of a ConfigMap or Secret end that hold a bundle; others may stand beside them. Objects have 1 MiB at most,
which 500 policies of the public library exceed (1.8 MB, 0.35 MB packed)."""

Kind = Literal["file", "configmap", "secret", "oci"]


class SourceProblem(Exception):
    """A source that is none, or that gives no bundle just now; the text is for people."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a bundle comes from. ``place`` is a path, or the namespace of an object; ``name`` the name of the object,
    or the tag in an image layout."""

    text: str
    kind: Kind
    place: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """What a source gave: ``version`` changes whenever the bundles may have changed."""

    version: str
    bundles: tuple[bytes, ...]


def parse_source(text: str) -> Source:
    """``file:PATH``, ``configmap:NAMESPACE/NAME``, ``secret:NAMESPACE/NAME`` or ``oci:FOLDER[:TAG]``. Raises
    :class:`SourceProblem`."""
    kind, _, rest = text.partition(":")
    match kind:
        case "file" if rest:
            return Source(text, "file", rest)
        case "oci" if rest:
            try:
                folder, tag = parse_place(rest)
            except LayoutProblem as problem:
                raise SourceProblem(str(problem)) from None
            return Source(text, "oci", str(folder), tag)
        case "configmap" | "secret":
            namespace, _, name = rest.partition("/")
            if namespace and name and "/" not in name:
                return Source(text, kind, namespace, name)
    raise SourceProblem(
        f"{text!r} is no file:PATH, configmap:NAMESPACE/NAME, secret:NAMESPACE/NAME or oci:FOLDER[:TAG]"
    )


async def read_source(source: Source, client: KubeClient) -> Given:
    """The bundles of a source as they are now. Raises :class:`SourceProblem` and :class:`Unreachable`."""
    match source.kind:
        case "file":
            return await asyncio.to_thread(_read_file, source)
        case "oci":
            return await asyncio.to_thread(_read_layout, source)
    resource, what = (CONFIG_MAP, "binaryData") if source.kind == "configmap" else (SECRET, "data")
    try:
        obj = await client.get(resource, source.name, source.place)
    except ApiProblem as problem:
        raise SourceProblem(str(problem)) from None
    bundles = tuple(_decoded(obj, what))
    if not bundles:
        raise SourceProblem(f"no key of {what} ends with {SUFFIX}")
    return Given(str((obj.get("metadata") or {}).get("resourceVersion") or ""), bundles)


def _read_file(source: Source) -> Given:
    try:
        data = read_file(source.place)
    except BundleProblem as problem:
        raise SourceProblem(str(problem)) from None
    return Given(sha256(data).hexdigest(), (data,))


def _read_layout(source: Source) -> Given:
    try:
        data = read_layout(Path(source.place), source.name)
    except LayoutProblem as problem:
        raise SourceProblem(str(problem)) from None
    return Given(sha256(data).hexdigest(), (data,))


def _decoded(obj: Object, what: str) -> Iterator[bytes]:
    for key, value in sorted((obj.get(what) or {}).items()):
        if not key.endswith((SUFFIX, PACKED)):
            continue
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise SourceProblem(f"{key}: no base64") from None
        yield _unpacked(key, data) if key.endswith(PACKED) else data


def _unpacked(key: str, data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        # Never more than a bundle may have: a megabyte can be packed to hold a thousand.
        found = unpacker.decompress(data, MAX_BUNDLE + 1)
    except zlib.error:
        raise SourceProblem(f"{key}: no gzip") from None
    if not unpacker.eof or len(found) > MAX_BUNDLE:
        raise SourceProblem(f"{key}: the end is missing, or it has more than {MAX_BUNDLE} bytes")
    return found


def load_entries(
    data: bytes, trust: Trust | None, tier: Tier, imports: Imports, mismatches: Mismatches
) -> dict[ObjectKey, Entry]:
    """The policies and exceptions of a bundle, each as if the cluster held it. Runs in a worker thread.

    Raises :class:`SourceProblem` for whatever is wrong with the bundle, a signature of none of the keys included.
    """
    try:
        module, digest, run = load_module(data, tier, trust, imports, mismatches, at_once=True)
    except (BundleError, VerifyError) as problem:
        raise SourceProblem(str(problem)) from None
    views = _views(module)
    found: dict[ObjectKey, Entry] = {}
    now = time.time()
    for obj in _objects(module):
        key = _key(obj)
        view = views.pop(key, None)
        if view is None:
            raise SourceProblem(f"the bundle has no code for {origin_of(obj)}")
        text = object_text(obj)
        models = models_of(text, origin_of(obj))
        own = sha256(digest + repr(key).encode()).digest()
        good = Good(text, view, own, run, models[0] if models else None)
        found[key] = Entry(obj, text, good, "", now, bundled=True)
    if views:
        missing = ", ".join("/".join(filter(None, key)) for key in sorted(views))
        raise SourceProblem(f"the bundle does not say how {missing} was written, compile it with --with-objects")
    return found


def _objects(module: Module) -> list[Object]:
    data = next((data for number, data in module.extra if number == OBJECTS), b"[]")
    try:
        objects = orjson.loads(data)
    except orjson.JSONDecodeError:
        objects = None
    if not isinstance(objects, list) or not all(
        isinstance(o, dict) and isinstance(o.get("metadata"), dict) for o in objects
    ):
        raise SourceProblem("the bundle's objects are no list of policies")
    return objects


def _key(obj: Object) -> ObjectKey:
    kind, metadata = str(obj.get("kind")), obj["metadata"]
    # A ClusterPolicy may be written with a namespace (decision 5), and has none.
    namespace = "" if kind.startswith("Cluster") else str(metadata.get("namespace") or "")
    return kind, namespace, str(metadata.get("name"))


def _views(module: Module) -> dict[ObjectKey, Module]:
    """The module seen as one module for each policy and exception, so that controllers can choose among them. They
    share the code; of the tables only what a policy set looks at is left."""
    bare = replace(
        module,
        constants=(),
        paths=(("images",),) if mentions_images(module) else (),
        patterns=(),
        imports=(),
        functions=(),
        cells=(),
        policies=(),
        exemptions=(),
        index=(),
        debug=None,
        extra=(),
    )
    views: dict[ObjectKey, Module] = {}
    for policy in module.policies:
        kind = str(policy.meta.get("kind") or ("ClusterPolicy" if policy.namespace is None else "Policy"))
        if kind.startswith("ValidatingAdmissionPolicy"):
            raise SourceProblem(f"{kind} {policy.name} is the API server's own, apply it to the cluster")
        views[kind, policy.namespace or "", policy.name] = replace(bare, policies=(policy,))
    for exemption in module.exemptions:
        views["PolicyException", exemption.namespace, exemption.name] = replace(bare, exemptions=(exemption,))
    return views


@dataclass(slots=True)
class _State:
    """What is known of a source: the version that was looked at last, good or not; the entries of the last good one;
    what is wrong since."""

    source: Source
    seen: str | None = None
    entries: dict[ObjectKey, Entry] | None = None
    problem: str = ""


class BundleSources:
    """Keeps the policy controller in step with the sources. ``loaded`` is set once every source has given a bundle:
    before that nothing may be answered."""

    def __init__(
        self,
        client: KubeClient,
        settings: Settings,
        policies: PolicyController,
        metrics: Metrics,
        events: Events,
        imports: Imports,
        trust: Trust | None,
    ) -> None:
        self.loaded = asyncio.Event()
        self._client = client
        self._settings = settings
        self._policies = policies
        self._metrics = metrics
        self._events = events
        self._imports = imports
        self._trust = trust
        self._states = [_State(parse_source(text)) for text in settings.bundle_sources]

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        """One look at every source; policies change only where a bundle is new and all of it is right."""
        changed = False
        for state in self._states:
            try:
                given = await read_source(state.source, self._client)
                if given.version == state.seen:
                    continue
                state.seen = given.version
                entries = await self._load(state.source, given)
            except (Unreachable, TimeoutError) as problem:
                log.warning("%s cannot be read: %s", state.source.text, problem)
                continue
            except SourceProblem as problem:
                self._refuse(state, str(problem))
                continue
            state.entries, state.problem = entries, ""
            self._metrics.count("thesmos_bundle_loads_total", state.source.text, "loaded")
            self._metrics.set("thesmos_bundle_loaded_timestamp_seconds", time.time(), state.source.text)
            log.info("%s: %d policies and exceptions", state.source.text, len(entries))
            changed = True
        if changed:
            self._hand_over()
            for state in self._states:
                if state.problem:
                    # What stood against it may be gone: a policy that was in two bundles.
                    state.seen = None

    async def _load(self, source: Source, given: Given) -> dict[ObjectKey, Entry]:
        found: dict[ObjectKey, Entry] = {}
        tier: Any = self._settings.tier
        for data in given.bundles:
            entries = await asyncio.to_thread(
                load_entries, data, self._trust, tier, self._imports, self._policies.mismatches
            )
            self._add(found, entries)
        others: dict[ObjectKey, Entry] = {}
        for state in self._states:
            if state.source is not source and state.entries is not None:
                others |= state.entries
        self._add(others, found)
        return found

    @staticmethod
    def _add(known: dict[ObjectKey, Entry], more: Mapping[ObjectKey, Entry]) -> None:
        twice = sorted(known.keys() & more.keys())
        if twice:
            raise SourceProblem(f"{'/'.join(filter(None, twice[0]))} is in two bundles")
        known.update(more)

    def _hand_over(self) -> None:
        if any(state.entries is None for state in self._states):
            return
        self._policies.take({key: entry for s in self._states if s.entries for key, entry in s.entries.items()})
        self.loaded.set()

    def _refuse(self, state: _State, problem: str) -> None:
        """Told once for each problem, however often it is looked at."""
        if problem == state.problem:
            return
        state.problem = problem
        kept = "no policies can be loaded" if state.entries is None else "the last good bundle stays in force"
        log.error("%s: the bundle is not used, %s: %s", state.source.text, kept, problem)
        self._metrics.count("thesmos_bundle_loads_total", state.source.text, "refused")
        self._events.emit(FAILED, "None", f"the bundle is not used, {kept}: {problem}", self._regarding(state.source))

    def _regarding(self, source: Source) -> Object:
        names = self._settings.names
        if source.kind in ("configmap", "secret"):
            kind = "ConfigMap" if source.kind == "configmap" else "Secret"
            metadata = {"namespace": source.place, "name": source.name}
            return {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        metadata = {"namespace": names.namespace, "name": names.install}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
