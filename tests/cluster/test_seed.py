"""The user's own example policies in a cluster: each answers there as its file says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.request import base_rule
from tests.cluster.cluster import Cluster
from tests.cluster.seed_cases import Object, SeedCase, contains, folders, load, seed_folder

FOLDERS = folders()
NO_CASES = "the example policies are not here (THESMOS_CONFORMANCE names the folder beside them)"

pytestmark = pytest.mark.skipif(not FOLDERS, reason=NO_CASES)

UNKNOWN_TO_THE_API = ("fsReadOnlyRootFilesystem",)
"""A field that an example sets and no API server keeps: its README says so."""


def text(*objects: Object) -> str:
    """As JSON: YAML that one library writes another may read otherwise."""
    return "\n---\n".join(map(json.dumps, objects))


def policy_files() -> list[Path]:
    return sorted([*seed_folder().glob("*/policy.yaml"), *seed_folder().glob("*/exception.yaml")])


@pytest.mark.parametrize("path", policy_files(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_file_is_accepted_strictly_and_reads_back_as_written(cluster: Cluster, path: Path) -> None:
    # Fields with a default come back besides.
    for written in (d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d):
        namespace = written["metadata"].get("namespace")
        if namespace and written["kind"] != "ClusterPolicy":
            cluster.namespaces(namespace)
        done = cluster.plane.kubectl("create", "--validate=strict", "-o", "json", "-f", "-", stdin=text(written))
        assert done.returncode == 0, done.stderr
        name = written["metadata"]["name"]
        place = ["-n", namespace] if namespace and written["kind"] != "ClusterPolicy" else []
        group, version = written["apiVersion"].split("/")
        kind = written["kind"].lower()
        back = cluster.get(f"{kind}.{version}.{group}", name, *place)
        assert contains(back["spec"], written["spec"]), back["spec"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_a_case_answers_in_the_cluster_as_its_file_says(cluster: Cluster, folder: Path) -> None:
    case = load(folder)
    places = {o["metadata"].get("namespace", "default") for o in (*case.resources, *case.exceptions)}
    places |= {o["metadata"]["namespace"] for o in case.policies if o["kind"] == "Policy"}
    cluster.namespaces(*sorted(p for p in places if p))
    # Not by a client-side apply: it leaves out what is null, before the API server sees it.
    cluster.admitted(text(*(bare(o) for o in case.policies), *case.exceptions))
    for policy in case.policies:
        place = ["-n", policy["metadata"]["namespace"]] if policy["kind"] == "Policy" else []
        cluster.ready(f"{policy['kind'].lower()}.v1.kyverno.io", policy["metadata"]["name"], *place)
    try:
        for obj in case.resources:
            check(cluster, case, obj)
    finally:
        for obj in case.resources:
            namespace = ["-n", obj["metadata"]["namespace"]] if obj["metadata"].get("namespace") else []
            cluster.plane.kubectl("delete", obj["kind"], obj["metadata"]["name"], *namespace, "--wait=false")


def check(cluster: Cluster, case: SeedCase, obj: Object) -> None:
    """Creates an object and looks at all that was expected of it."""
    if obj["kind"] == "Namespace":
        cluster.delete("namespace", obj["metadata"]["name"])  # another test may have made one of that name
    done = cluster.plane.kubectl("create", "--validate=ignore", "-o", "json", "-f", "-", stdin=text(obj))
    refusals = case.refusals(obj)
    if refusals:
        assert done.returncode != 0, f"admitted, though {refusals[0]}"
        for refusal in refusals:
            assert refusal.policy_name in done.stderr, done.stderr
            assert refusal.rule in done.stderr, done.stderr
        return
    assert done.returncode == 0, f"{done.stderr}\n{cluster.thesmos.tail()}"
    stored = yaml.safe_load(done.stdout)
    for expected in case.of(obj):
        if expected.patched is not None:
            assert contains(stored["spec"], kept(expected.patched)["spec"]), stored
        for made in expected.made:
            place = ["-n", made["metadata"]["namespace"]] if made["metadata"].get("namespace") else []
            found = cluster.appears(made["kind"], made["metadata"]["name"], *place, seconds=2)
            assert contains(found, made), found
    reported(cluster, case, obj, stored)


def reported(cluster: Cluster, case: SeedCase, obj: Object, stored: Object) -> None:
    """The report of an object that was admitted says what was expected of the rules that validate."""
    wanted = {
        (e.policy, e.rule): e.result
        for e in case.of(obj)
        if e.patched is None and not e.made and e.result != "skip" and validates(case, e.policy_name, e.rule)
    }
    if not wanted:
        return
    namespace = stored["metadata"].get("namespace")
    kind, place = ("policyreport", ["-n", namespace]) if namespace else ("clusterpolicyreport", [])

    def results() -> bool:
        done = cluster.plane.kubectl("get", kind, stored["metadata"]["uid"], *place, "-o", "json")
        if done.returncode != 0:
            return False
        found = {(r["policy"], base_rule(r["rule"])): r["result"] for r in yaml.safe_load(done.stdout)["results"]}
        return all(found.get(key) == value for key, value in wanted.items())

    cluster.until(results, seconds=20, what=f"the report of {obj['metadata']['name']} with {wanted}")


def validates(case: SeedCase, policy: str, rule: str) -> bool:
    return any(
        r["name"] == rule and ("validate" in r or "validation" in r)
        for p in case.policies
        if p["metadata"]["name"] == policy and p["spec"].get("background", True)
        for r in p["spec"]["rules"]
    )


def bare(policy: Object) -> Object:
    """A policy without what the API server drops of it."""
    found = copy.deepcopy(policy)
    if found["kind"] == "ClusterPolicy":
        found["metadata"].pop("namespace", None)
    return found


def kept(obj: Any) -> Any:
    if isinstance(obj, dict):
        return {k: kept(v) for k, v in obj.items() if k not in UNKNOWN_TO_THE_API}
    return [kept(v) for v in obj] if isinstance(obj, list) else obj
