"""The checks of the Pod Security Standards, each with the versions of Kubernetes that changed it (semantics §14).

A check answers None for a Pod that keeps to it, else the reason and an error for each field that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_KINDS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True)
class Pod:
    """A Pod's metadata and spec. A container may say by ``$at`` which place it has in the whole Pod."""

    metadata: dict[str, Any]
    spec: dict[str, Any]


@dataclass(frozen=True)
class FieldError:
    """A field that is wrong; ``bad`` is what stands there, ``required`` says that something should."""

    field: str
    bad: Any = None
    required: bool = False

    @property
    def bad_texts(self) -> list[str]:
        if self.bad in (None, ""):
            return []
        return [_plain(v) for v in (self.bad if isinstance(self.bad, list) else [self.bad])]

    def text(self, field: str) -> str:
        if self.required:
            return f"{field}: Required value"
        if self.bad in (None, ""):
            return f"{field}: Forbidden"
        shown = "[" + " ".join(self.bad) + "]" if isinstance(self.bad, list) else _plain(self.bad)
        return f"{field} is forbidden, forbidden values found: {shown}"


def _plain(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


Found = tuple[str, list[FieldError]]
Body = Callable[[Pod], Found | None]


@dataclass(frozen=True)
class Check:
    """``versions`` are (first version, body), ascending."""

    name: str
    level: str
    versions: tuple[tuple[tuple[int, int], Body], ...]


def _containers(pod: Pod) -> Iterator[tuple[dict[str, Any], str]]:
    """Each container with its path; init containers come first."""
    for kind in _KINDS:
        for i, container in enumerate(pod.spec.get(kind) or []):
            yield container, f"spec.{kind}[{container.get('$at', i)}]"


def _context(holder: dict[str, Any]) -> dict[str, Any]:
    return holder.get("securityContext") or {}


def _everywhere(pod: Pod) -> Iterator[tuple[dict[str, Any], str]]:
    """The security context of the Pod, then those of its containers, each with its path."""
    yield _context(pod.spec), "spec.securityContext"
    for container, path in _containers(pod):
        yield _context(container), f"{path}.securityContext"


def _answer(reason: str, errors: list[FieldError]) -> Found | None:
    return (reason, errors) if errors else None


def _allow_privilege_escalation(pod: Pod) -> Found | None:
    errors = []
    for container, path in _containers(pod):
        allowed, field = (
            _context(container).get("allowPrivilegeEscalation"),
            f"{path}.securityContext.allowPrivilegeEscalation",
        )
        if allowed is None:
            errors.append(FieldError(field, required=True))
        elif allowed:
            errors.append(FieldError(field, True))
    return _answer("allowPrivilegeEscalation != false", errors)


def _app_armor(pod: Pod) -> Found | None:
    errors = []
    values = set()
    for context, path in _everywhere(pod):
        profile = context.get("appArmorProfile")
        if profile is not None and profile.get("type") not in ("RuntimeDefault", "Localhost"):
            errors.append(FieldError(f"{path}.appArmorProfile.type", profile.get("type") or ""))
            values.add(profile.get("type") or "")
    annotations = pod.metadata.get("annotations") or {}
    bad = [
        k
        for k in sorted(annotations)
        if k.startswith("container.apparmor.security.beta.kubernetes.io/")
        and annotations[k] not in ("", "runtime/default")
        and not annotations[k].startswith("localhost/")
    ]
    errors += [FieldError(f"metadata.annotations[{k}]", annotations[k]) for k in bad]
    several = "s" if len(values) + len(bad) != 1 else ""
    return _answer(f"forbidden AppArmor profile{several}", errors)


_DEFAULT_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}


def _added(container: dict[str, Any], allowed: set[str]) -> list[str]:
    capabilities = _context(container).get("capabilities") or {}
    return sorted({c for c in capabilities.get("add") or [] if c not in allowed})


def _capabilities_baseline(pod: Pod) -> Found | None:
    errors = []
    for container, path in _containers(pod):
        bad = _added(container, _DEFAULT_CAPABILITIES)
        if bad:
            errors.append(FieldError(f"{path}.securityContext.capabilities.add", bad))
    return _answer("non-default capabilities", errors)


def _capabilities_restricted(pod: Pod) -> Found | None:
    kept, added = [], []
    for container, path in _containers(pod):
        path = f"{path}.securityContext.capabilities"
        dropped = (_context(container).get("capabilities") or {}).get("drop") or []
        if "ALL" not in dropped:
            kept.append(FieldError(f"{path}.drop", sorted(set(dropped)) or None, required=not dropped))
        bad = _added(container, {"NET_BIND_SERVICE"})
        if bad:
            added.append(FieldError(f"{path}.add", bad))
    return _answer("unrestricted capabilities", kept + added)


def _host_namespaces(pod: Pod) -> Found | None:
    names = ("hostNetwork", "hostPID", "hostIPC")
    return _answer("host namespaces", [FieldError(f"spec.{n}", True) for n in names if pod.spec.get(n)])


def _host_paths(pod: Pod) -> Found | None:
    errors = [
        FieldError(f"spec.volumes[{i}].hostPath", volume["hostPath"].get("path") or "")
        for i, volume in enumerate(pod.spec.get("volumes") or [])
        if volume.get("hostPath") is not None
    ]
    return _answer("hostPath volumes", errors)


def _host_ports(pod: Pod) -> Found | None:
    errors = []
    for container, path in _containers(pod):
        for i, port in enumerate(container.get("ports") or []):
            if port.get("hostPort"):
                errors.append(FieldError(f"{path}.ports[{i}].hostPort", port["hostPort"]))
    return _answer("hostPort", errors)


_HANDLERS = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)


def _probe_hosts(pod: Pod) -> Found | None:
    errors = []
    for container, path in _containers(pod):
        for steps in _HANDLERS:
            handler = container
            for step in steps:
                handler = handler.get(step) or {}
            for action in ("httpGet", "tcpSocket"):
                host = (handler.get(action) or {}).get("host")
                if host:
                    errors.append(FieldError(".".join((path, *steps, action, "host")), host))
    return _answer("probe or lifecycle host", errors)


def _privileged(pod: Pod) -> Found | None:
    errors = [
        FieldError(f"{path}.securityContext.privileged", True)
        for container, path in _containers(pod)
        if _context(container).get("privileged")
    ]
    return _answer("privileged", errors)


def _proc_mount(pod: Pod) -> Found | None:
    errors = []
    for container, path in _containers(pod):
        mount = _context(container).get("procMount")
        if mount is not None and mount != "Default":
            errors.append(FieldError(f"{path}.securityContext.procMount", mount))
    return _answer("procMount", errors)


_VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
_OTHER_VOLUMES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
)


def _restricted_volumes(pod: Pod) -> Found | None:
    errors = []
    for i, volume in enumerate(pod.spec.get("volumes") or []):
        if all(volume.get(kind) is None for kind in _VOLUMES):
            kind = next((k for k in _OTHER_VOLUMES if volume.get(k) is not None), "unknown")
            errors.append(FieldError(f"spec.volumes[{i}].{kind}"))
    return _answer("restricted volume types", errors)


def _run_as_non_root(pod: Pod) -> Found | None:
    whole = _context(pod.spec).get("runAsNonRoot")
    explicit = [] if whole is not False else [FieldError("spec.securityContext.runAsNonRoot", False)]
    implicit = []
    for container, path in _containers(pod):
        own, field = _context(container).get("runAsNonRoot"), f"{path}.securityContext.runAsNonRoot"
        if own is False:
            explicit.append(FieldError(field, False))
        elif own is None and not whole:
            implicit.append(FieldError(field, required=True))
    return _answer("runAsNonRoot != true", explicit + implicit)


def _run_as_user(pod: Pod) -> Found | None:
    errors = [
        FieldError(f"{path}.runAsUser", 0) for context, path in _everywhere(pod) if _is_zero(context.get("runAsUser"))
    ]
    return _answer("runAsUser=0", errors)


def _is_zero(value: Any) -> bool:
    return value == 0 and not isinstance(value, bool)


def _se_linux(types: set[str]) -> Body:
    def body(pod: Pod) -> Found | None:
        errors = []
        for context, path in _everywhere(pod):
            options = context.get("seLinuxOptions")
            if options is None:
                continue
            if (options.get("type") or "") not in types:
                errors.append(FieldError(f"{path}.seLinuxOptions.type", options["type"]))
            for name in ("user", "role"):
                if options.get(name):
                    errors.append(FieldError(f"{path}.seLinuxOptions.{name}", options[name]))
        return _answer("seLinuxOptions", errors)

    return body


_SECCOMP = ("RuntimeDefault", "Localhost")


def _seccomp_by_annotation(pod: Pod) -> Found | None:
    annotations = pod.metadata.get("annotations") or {}
    names = ["seccomp.security.alpha.kubernetes.io/pod"]
    names += [f"container.seccomp.security.alpha.kubernetes.io/{c.get('name')}" for c, _ in _containers(pod)]
    errors = []
    for name in names:
        value = annotations.get(name)
        if value is None or value in ("runtime/default", "docker/default") or value.startswith("localhost/"):
            continue
        errors.append(FieldError(f"metadata.annotations[{name}]", value))
    return _answer("seccompProfile", errors)


def _bad_seccomp(pod: Pod) -> list[FieldError]:
    errors = []
    for context, path in _everywhere(pod):
        profile = context.get("seccompProfile")
        if profile is not None and profile.get("type") not in _SECCOMP:
            errors.append(FieldError(f"{path}.seccompProfile.type", profile.get("type") or ""))
    return errors


def _seccomp_baseline(pod: Pod) -> Found | None:
    return _answer("seccompProfile", _bad_seccomp(pod))


def _seccomp_restricted(pod: Pod) -> Found | None:
    errors = _bad_seccomp(pod)
    if not errors and (_context(pod.spec).get("seccompProfile") or {}).get("type") not in _SECCOMP:
        errors = [
            FieldError(f"{path}.securityContext.seccompProfile.type", required=True)
            for container, path in _containers(pod)
            if _context(container).get("seccompProfile") is None
        ]
    return _answer("seccompProfile", errors)


_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
}
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: set[str]) -> Body:
    def body(pod: Pod) -> Found | None:
        errors = [
            FieldError(f"spec.securityContext.sysctls[{i}].name", sysctl.get("name") or "")
            for i, sysctl in enumerate(_context(pod.spec).get("sysctls") or [])
            if (sysctl.get("name") or "") not in allowed
        ]
        return _answer("forbidden sysctls", errors)

    return body


def _host_process(pod: Pod) -> Found | None:
    errors = [
        FieldError(f"{path}.windowsOptions.hostProcess", True)
        for context, path in _everywhere(pod)
        if (context.get("windowsOptions") or {}).get("hostProcess")
    ]
    return _answer("hostProcess", errors)


def _not_for_windows(body: Body) -> Body:
    def inner(pod: Pod) -> Found | None:
        return None if (pod.spec.get("os") or {}).get("name") == "windows" else body(pod)

    return inner


def _not_with_own_users(body: Body) -> Body:
    def inner(pod: Pod) -> Found | None:
        return None if pod.spec.get("hostUsers") is False else body(pod)

    return inner


_V = dict[tuple[int, int], Body]


def _check(name: str, level: str, versions: _V) -> Check:
    return Check(name, level, tuple(sorted(versions.items(), key=lambda v: v[0])))


_TYPES = {"", "container_t", "container_init_t", "container_kvm_t"}
CHECKS = (
    _check(
        "allowPrivilegeEscalation",
        "restricted",
        {(1, 8): _allow_privilege_escalation, (1, 25): _not_for_windows(_allow_privilege_escalation)},
    ),
    _check("appArmorProfile", "baseline", {(1, 0): _app_armor}),
    _check("capabilities_baseline", "baseline", {(1, 0): _capabilities_baseline}),
    _check(
        "capabilities_restricted",
        "restricted",
        {(1, 22): _capabilities_restricted, (1, 25): _not_for_windows(_capabilities_restricted)},
    ),
    _check("hostNamespaces", "baseline", {(1, 0): _host_namespaces}),
    _check("hostPathVolumes", "baseline", {(1, 0): _host_paths}),
    _check("hostPorts", "baseline", {(1, 0): _host_ports}),
    _check("hostProbesAndHostLifecycle", "baseline", {(1, 34): _probe_hosts}),
    _check("privileged", "baseline", {(1, 0): _privileged}),
    _check("procMount", "baseline", {(1, 0): _proc_mount, (1, 35): _not_with_own_users(_proc_mount)}),
    _check("procMount_restricted", "restricted", {(1, 35): _proc_mount}),
    _check("restrictedVolumes", "restricted", {(1, 0): _restricted_volumes}),
    _check("runAsNonRoot", "restricted", {(1, 0): _run_as_non_root, (1, 35): _not_with_own_users(_run_as_non_root)}),
    _check("runAsUser", "restricted", {(1, 23): _run_as_user, (1, 35): _not_with_own_users(_run_as_user)}),
    _check(
        "seLinuxOptions", "baseline", {(1, 0): _se_linux(_TYPES), (1, 31): _se_linux(_TYPES | {"container_engine_t"})}
    ),
    _check("seccompProfile_baseline", "baseline", {(1, 0): _seccomp_by_annotation, (1, 19): _seccomp_baseline}),
    _check(
        "seccompProfile_restricted",
        "restricted",
        {(1, 19): _seccomp_restricted, (1, 25): _not_for_windows(_seccomp_restricted)},
    ),
    _check(
        "sysctls",
        "baseline",
        {
            (1, 0): _sysctls(_SYSCTLS),
            (1, 27): _sysctls(_SYSCTLS_27),
            (1, 29): _sysctls(_SYSCTLS_29),
            (1, 32): _sysctls(_SYSCTLS_32),
        },
    ),
    _check("windowsHostProcess", "baseline", {(1, 0): _host_process}),
)
"""In the order in which the reference looks at them."""
