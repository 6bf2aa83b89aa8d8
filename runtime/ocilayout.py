"""Bundles in a folder of the OCI image layout: what registries, image volumes and copy tools take and give.

``thesmos compile --oci`` calls :func:`write_layout`, a cluster that has its policies from such a folder
:func:`read_layout`. The folder holds ``oci-layout``, ``index.json`` and ``blobs/sha256/<digest>``; an entry of the
index names a manifest by digest, the manifest names the bundle as its one layer of :data:`BUNDLE_TYPE`. Every blob is
held to its digest and size as it is read, so that half a copy is no bundle. No network is used.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from vm.code import MAX_BUNDLE

BUNDLE_TYPE: Final = "application/vnd.thesmos.bundle.v1"
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
REF_NAME: Final = "org.opencontainers.image.ref.name"
MAX_JSON: Final = 4 << 20
"""Bytes of an index or manifest that is read: registries take no larger ones."""

_EMPTY: Final = b"{}"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class LayoutProblem(Exception):
    """A folder that is no image layout, or holds no bundle of that name; the text says which and why."""


def parse_place(text: str) -> tuple[Path, str]:
    """``FOLDER`` or ``FOLDER:TAG`` in two; the tag is empty where none is given. Raises :class:`LayoutProblem`."""
    folder, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        return Path(text), ""
    if not folder or not _TAG.fullmatch(tag):
        raise LayoutProblem(f"{text}: is no FOLDER[:TAG]")
    return Path(folder), tag


def write_layout(folder: Path, tag: str, bundle: bytes) -> None:
    """Puts a bundle into the layout, beside what is there; a bundle of the same tag (``latest``) is replaced.

    The index is renamed into place last, so that no reader sees a name without its blobs. Raises
    :class:`LayoutProblem`.
    """
    tag = tag or "latest"
    try:
        index = _json(folder / "index.json") if (folder / "index.json").exists() else {}
        (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        layers = [_put(folder, bundle, BUNDLE_TYPE)]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": BUNDLE_TYPE,
            "config": _put(folder, _EMPTY, EMPTY_TYPE),
            "layers": layers,
        }
        entry = {
            **_put(folder, orjson.dumps(manifest), MANIFEST_TYPE),
            "artifactType": BUNDLE_TYPE,
            "annotations": {REF_NAME: tag},
        }
        others = [m for m in index.get("manifests") or () if (m.get("annotations") or {}).get(REF_NAME) != tag]
        _replace(folder / "oci-layout", orjson.dumps({"imageLayoutVersion": "1.0.0"}))
        made = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [*others, entry]}
        _replace(folder / "index.json", orjson.dumps(made))
    except OSError as error:
        raise LayoutProblem(f"{folder}: {(error.strerror or str(error)).lower()}") from None


def read_layout(folder: Path, tag: str = "") -> bytes:
    """The bundle that a layout holds under a tag; without one the layout must hold exactly one. Raises
    :class:`LayoutProblem`."""
    index = _json(folder / "index.json")
    entries = [m for m in _dicts(index.get("manifests")) if m.get("mediaType") == MANIFEST_TYPE]
    if tag:
        entries = [m for m in entries if (m.get("annotations") or {}).get(REF_NAME) == tag]
    if not entries:
        raise LayoutProblem(f"{folder}: holds no manifest{f' {tag!r}' if tag else ''}")
    if len(entries) > 1:
        names = ", ".join(sorted(str((m.get("annotations") or {}).get(REF_NAME) or "unnamed") for m in entries))
        raise LayoutProblem(f"{folder}: holds several manifests, name one of them: {names}")
    manifest = _parsed(_blob(folder, entries[0], MAX_JSON), f"{folder}: the manifest")
    layers = [layer for layer in _dicts(manifest.get("layers")) if layer.get("mediaType") == BUNDLE_TYPE]
    if len(layers) != 1:
        raise LayoutProblem(f"{folder}: the manifest has {len(layers)} layers of type {BUNDLE_TYPE}, one is wanted")
    return _blob(folder, layers[0], MAX_BUNDLE)


def _blob(folder: Path, descriptor: dict[str, Any], limit: int) -> bytes:
    digest, size = descriptor.get("digest"), descriptor.get("size")
    # The digest becomes a file name: nothing but digits may.
    if type(digest) is not str or not _DIGEST.fullmatch(digest) or type(size) is not int:
        raise LayoutProblem(f"{folder}: a descriptor without sha256 digest and size")
    if size > limit:
        raise LayoutProblem(f"{folder}: {digest} has {size} bytes, more than {limit}")
    data = _read(folder / "blobs" / "sha256" / digest.removeprefix("sha256:"), limit)
    if len(data) != size or f"sha256:{sha256(data).hexdigest()}" != digest:
        raise LayoutProblem(f"{folder}: the content of {digest} is another")
    return data


def _put(folder: Path, data: bytes, media_type: str) -> dict[str, Any]:
    digest = sha256(data).hexdigest()
    path = folder / "blobs" / "sha256" / digest
    if not path.exists():
        _replace(path, data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


def _json(path: Path) -> dict[str, Any]:
    return _parsed(_read(path, MAX_JSON), str(path))


def _parsed(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise LayoutProblem(f"{what}: no JSON") from None
    if not isinstance(value, dict):
        raise LayoutProblem(f"{what}: no JSON object")
    return value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise LayoutProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > limit:
        raise LayoutProblem(f"{path}: has more than {limit} bytes")
    return data
