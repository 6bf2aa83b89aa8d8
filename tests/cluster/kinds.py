"""``make kinds``: remakes the compiler's table of the Kubernetes kinds from the test API server.

Starts a control plane of its own, reads discovery and OpenAPI v3, writes
``compiler/schema/kinds/kubernetes.jsonl``. For another Kubernetes version change it in
``tests/cluster/controlplane`` first. ``test_kinds.py`` holds the stored file against the API server.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from compiler.schema.kinds import merging
from compiler.schema.kinds.records import Encoder
from compiler.schema.kinds.table import FILE, Table, write
from tests.cluster.control_plane import ControlPlane, StartProblem
from tests.cluster.controlplane.build import BuildProblem, build

TARGET: Final = Path(__file__).resolve().parents[2] / "compiler" / "schema" / "kinds" / FILE


def make(plane: ControlPlane) -> bytes:
    """The table of what a running API server says of its built-in kinds."""
    groups = [("", "v1", "api/v1")]
    # Definitions that Thesmos and other tests have brought are not of the API server itself.
    definitions = _get(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    own = {definition["spec"]["group"] for definition in definitions}
    for group in _get(plane, "/apis")["groups"]:
        groups += [(group["name"], v["version"], f"apis/{v['groupVersion']}") for v in group["versions"]]
    served = _get(plane, "/openapi/v3")["paths"]
    schemas: dict[str, Any] = {}
    resources: list[tuple[str, str, list[dict[str, Any]]]] = []
    for group, version, path in groups:
        if group in own:
            continue
        found = _get(plane, served[path]["serverRelativeURL"])["components"]["schemas"]
        for name, schema in found.items():
            schemas.setdefault(name, schema)
        resources.append((group, version, _get(plane, f"/{path}")["resources"]))
    by_kind = {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in schemas.items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    }
    encoder = Encoder(schemas.get)

    def definition(group: str, version: str, kind: str) -> str | None:
        name = by_kind.get((group, version, kind))
        if name is not None:
            encoder.definition(schemas[name], name)
        return name

    rows: list[list[Any]] = []
    for group, version, entries in resources:
        parts: dict[str, list[list[Any]]] = {}
        for entry in entries:
            plural, _, sub = entry["name"].partition("/")
            if sub:
                kind = (entry.get("group", group), entry.get("version", version), entry["kind"])
                parts.setdefault(plural, []).append([sub, *kind, definition(*kind)])
        for entry in entries:
            plural, kind = entry["name"], entry["kind"]
            if "/" not in plural:
                name = definition(group, version, kind)
                subs = sorted(parts.get(plural, []))
                singular, namespaced = entry["singularName"], entry["namespaced"]
                rows.append([group, version, plural, singular, kind, namespaced, name, subs])
    return write(_get(plane, "/version")["gitVersion"], rows, encoder.definitions)


def _get(plane: ControlPlane, path: str) -> Any:
    done = plane.kubectl("get", "--raw", path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main() -> int:
    try:
        assets = build()
        with tempfile.TemporaryDirectory() as folder:
            plane = ControlPlane(assets, Path(folder))
            try:
                plane.start()
                data = make(plane)
            finally:
                plane.stop()
    except (BuildProblem, StartProblem) as problem:
        print(problem, file=sys.stderr)
        return 1
    TARGET.write_bytes(data)
    merging.TARGET.write_text(merging.rendered(Table(data)), encoding="utf-8")
    print(f"{TARGET.name}: {len(data)} bytes, {len(data.splitlines())} lines")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
