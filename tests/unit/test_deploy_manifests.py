"""Manifests and the pages about them name flags and keys that there are."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.cli.main import COMMANDS
from runtime.config import Settings
from runtime.controllers.clusterconfig import parse as parse_config
from runtime.observe import metricsconfig
from runtime.webhook import controller, serve

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PAGES = ("install", "rollout", "moving", "operations", "bundle-sources", "troubleshooting")

FOREIGN = {
    # kubectl, helm, podman, openssl
    *("--namespace", "--create-namespace", "--set", "--all", "--replicas", "--image", "--dry-run", "--tail", "--as"),
    *("--clusterrole", "--group", "--field-selector", "--from-file", "--no-hooks", "--server-side"),
}


def manifest(name: str) -> list[dict[str, Any]]:
    return [obj for obj in yaml.safe_load_all((DEPLOY / name).read_text()) if obj]


def flags_of(command: str) -> set[str]:
    parser = argparse.ArgumentParser()
    import_module(COMMANDS[command][0]).add_arguments(parser)
    return {flag for action in parser._actions for flag in action.option_strings}


def settings(arguments: list[str], module: Any = serve) -> Settings:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return serve.settings_of(parser.parse_args(arguments))


def deployment() -> dict[str, Any]:
    (found,) = manifest("deployment.yaml")
    return found


def test_the_arguments_of_the_deployment_are_flags_that_the_server_takes() -> None:
    (container,) = deployment()["spec"]["template"]["spec"]["containers"]
    assert all(argument.startswith("--") for argument in container["args"])
    found = settings(container["args"])
    assert (found.in_cluster, found.port, found.metrics_port) == (True, 9443, 8000)
    assert found.bundle_cache is not None
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(found.bundle_cache) in mounted


def test_the_deployment_has_the_names_and_sizes_of_the_guide() -> None:
    found = deployment()
    spec = found["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert found["metadata"]["name"] == found["metadata"]["namespace"] == container["name"] == "kyverno"
    assert found["spec"]["replicas"] == 2
    assert found["spec"]["selector"]["matchLabels"] == {"app": "kyverno"}
    assert spec["serviceAccountName"] == "kyverno"
    assert container["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"cpu": "500m", "memory": "512Mi"},
    }


def test_what_the_image_is_built_from_is_there() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert {"pyproject.toml", "grammar", "vm", "compiler", "runtime"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert 'ENTRYPOINT ["thesmos", "serve"]' in text
    assert "USER 65532:65532" in text


def test_the_config_maps_are_read_without_a_complaint() -> None:
    config, metrics = manifest("config.yaml")
    found = parse_config(config)
    assert found.problems == ()
    assert found.filters_out("", "v1", "Event", "", "default", "e")
    assert found.filters_out("apps", "v1", "Deployment", "scale", "kube-system", "d")
    assert not found.filters_out("", "v1", "Pod", "", "default", "p")
    assert found.webhooks.namespace_selector is not None
    assert metricsconfig.parse(metrics).buckets == metricsconfig.BUCKETS


def test_the_controller_command_runs_everything_but_admission() -> None:
    found = settings(["--in-cluster"], controller)
    assert found.parts == {"background", "reports", "cleanup"}
    assert not found.admits
    # Nobody calls it: it needs no address outside the cluster.
    assert settings(["--kubeconfig", "k"], controller).server_ip is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--in-cluster", "--shadow"], "--shadow needs another --name"),
        (["--in-cluster", "--bundle-source", "file:p.thb"], "--bundle-source needs --key"),
        (["--in-cluster", "--unsigned-bundles", "--bundle-source", "http://p"], "is no file:PATH"),
    ],
)
def test_combinations_that_make_no_sense_are_refused(arguments: list[str], told: str) -> None:
    with pytest.raises(serve.ServeProblem, match=told):
        settings(arguments)


def test_the_shadow_writes_and_blocks_nothing() -> None:
    found = settings(["--in-cluster", "--shadow", "--name", "thesmos"])
    assert found.parts == {"admission"}
    assert found.force_failure_policy_ignore
    assert not found.apply_crds
    assert {"PolicyViolation", "PolicyError"} <= found.omit_events


@pytest.mark.parametrize("page", PAGES)
def test_flags_that_pages_name_are_flags_of_some_command(page: str) -> None:
    known = set().union(*map(flags_of, COMMANDS)) | FOREIGN
    text = (ROOT / f"docs/guide/{page}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", text))
    assert named - known == set()


def test_the_page_on_operating_tells_of_every_flag_group_of_the_server() -> None:
    text = (ROOT / "docs/guide/operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", text))
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    groups = {
        group.title: {flag for action in group._group_actions for flag in action.option_strings}
        for group in parser._action_groups
        if group._group_actions and "do nothing" not in str(group.title)
    }
    groups.pop("options", None)
    assert [title for title, flags in groups.items() if not flags & named] == []
