"""The fields of a Pod that the Pod Security Standards read, with their types: an object of another shape is no Pod."""

from __future__ import annotations

from typing import Any

_WINDOWS = {"hostProcess": bool}
_PROFILE = {"type": str}
_SE_LINUX = {"type": str, "user": str, "role": str}
_HANDLER = {"httpGet": {"host": str}, "tcpSocket": {"host": str}}
_CONTEXT: dict[str, Any] = {
    "allowPrivilegeEscalation": bool,
    "appArmorProfile": _PROFILE,
    "capabilities": {"add": [str], "drop": [str]},
    "privileged": bool,
    "procMount": str,
    "runAsNonRoot": bool,
    "runAsUser": int,
    "seLinuxOptions": _SE_LINUX,
    "seccompProfile": _PROFILE,
    "windowsOptions": _WINDOWS,
}
_CONTAINER: dict[str, Any] = {
    "name": str,
    "image": str,
    "ports": [{"hostPort": int}],
    "securityContext": _CONTEXT,
    "livenessProbe": _HANDLER,
    "readinessProbe": _HANDLER,
    "startupProbe": _HANDLER,
    "lifecycle": {"postStart": _HANDLER, "preStop": _HANDLER},
}
_POD: dict[str, Any] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "ephemeralContainers": [_CONTAINER],
    "hostIPC": bool,
    "hostNetwork": bool,
    "hostPID": bool,
    "hostUsers": bool,
    "os": {"name": str},
    "securityContext": {
        "appArmorProfile": _PROFILE,
        "runAsNonRoot": bool,
        "runAsUser": int,
        "seLinuxOptions": _SE_LINUX,
        "seccompProfile": _PROFILE,
        "sysctls": [{"name": str}],
        "windowsOptions": _WINDOWS,
    },
    "volumes": [{"hostPath": {"path": str}}],
}
_WORDS = {bool: "true or false", int: "a whole number", str: "a text"}


class NoPod(Exception):
    """The object is no Pod and has none."""


def check_shape(metadata: Any, spec: Any) -> None:
    """Raises :class:`NoPod` for the first field that is of another type."""
    _check(metadata, {"annotations": {}}, "metadata")
    for key, value in ((metadata or {}).get("annotations") or {}).items():
        if value is not None and not isinstance(value, str):
            raise NoPod(f"metadata.annotations[{key}] must be a text")
    _check(spec, _POD, "spec")


def _check(value: Any, shape: Any, path: str) -> None:
    if value is None:
        return
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise NoPod(f"{path} must be a map")
        for key, inner in shape.items():
            _check(value.get(key), inner, f"{path}.{key}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise NoPod(f"{path} must be a list")
        for i, one in enumerate(value):
            _check(one, shape[0], f"{path}[{i}]")
    elif not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        raise NoPod(f"{path} must be {_WORDS[shape]}")
