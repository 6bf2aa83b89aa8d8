"""The checks of the Pod Security Standards (``k8s.io/pod-security-admission`` of Kubernetes 1.36): what each one wants,
and from which version on.

``vm.intrinsics.pod_security`` goes through :data:`CHECKS` in their order, which is the order of the texts that people
read. A check answers with the fields that break it: those of the Pod first, then those of its containers, as
Kubernetes visits them (init containers before the others).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from vm.intrinsics.pod_security_pod import (
    FieldError,
    Pod,
    flag,
    items,
    number,
    obj,
    text,
    texts,
)

Errors: TypeAlias = list[FieldError]
Run: TypeAlias = Callable[[Pod], Errors]

LATEST: Final = 1 << 30
"""The minor version that ``latest`` stands for."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``reason`` is what a violation is called, ``plural`` where more than one field makes it another word.

    ``versions`` are (minor version of Kubernetes 1.x, what runs from it on), ascending. ``replaces``: the check that is
    left out where this one runs.
    """

    id: str
    control: str
    level: Literal["baseline", "restricted"]
    reason: str
    versions: tuple[tuple[int, Run], ...]
    plural: str = ""
    replaces: str = ""

    def at(self, minor: int) -> Run | None:
        """What runs at a minor version: the newest that is not newer than it; None before the first."""
        found = None
        for since, run in self.versions:
            if since <= minor:
                found = run
        return found

    def named(self, errors: Errors) -> str:
        """What the violation is called."""
        different = {(e.bad, e.field if e.container is None and e.field.startswith("metadata") else "") for e in errors}
        return self.plural if self.plural and len(different) > 1 else self.reason


# Settings of the security contexts


def _flag_is(bad: bool, *path: str, pod: bool = False) -> Run:
    """A flag of the security contexts must not have this value."""

    def run(subject: Pod) -> Errors:
        found = []
        for context, place, container in subject.all_contexts if pod else subject.contexts:
            for key in path[:-1]:
                context, place = obj(context, key, place) or {}, f"{place}.{key}"
            if flag(context, path[-1], place) is bad:
                found.append(FieldError(f"{place}.{path[-1]}", bad=bad, container=container))
        return found

    return run


def _type_is_allowed(setting: str, allowed: frozenset[str]) -> Run:
    """The ``type`` of a profile, where there is a profile, must be one of those."""

    def run(pod: Pod) -> Errors:
        return [
            FieldError(f"{place}.{setting}.type", bad=kind, container=container)
            for kind, place, container in _profiles(pod, setting)
            if kind is not None and kind not in allowed
        ]

    return run


def _profiles(pod: Pod, setting: str) -> Iterable[tuple[str | None, str, str | None]]:
    for context, place, container in pod.all_contexts:
        profile = obj(context, setting, place)
        yield None if profile is None else text(profile, "type", f"{place}.{setting}"), place, container


def _not_on_windows(run: Run) -> Run:
    return lambda pod: [] if pod.windows else run(pod)


def _not_with_own_users(run: Run) -> Run:
    return lambda pod: [] if pod.own_users else run(pod)


# Baseline


_PROFILES: Final = frozenset(("RuntimeDefault", "Localhost"))
_app_armor_types: Final = _type_is_allowed("appArmorProfile", _PROFILES)


def _app_armor(pod: Pod) -> Errors:
    found = _app_armor_types(pod)
    for key in sorted(pod.annotations):
        value = pod.annotations[key]
        allowed = value in ("", "runtime/default") or value.startswith("localhost/")
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and not allowed:
            found.append(FieldError(f"metadata.annotations[{key}]", bad=value))
    return found


_DEFAULT_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip


def _added(pod: Pod, allowed: frozenset[str]) -> Errors:
    """Containers that add capabilities beyond those."""
    found = []
    for context, place, container in pod.contexts:
        capabilities, place = obj(context, "capabilities", place) or {}, f"{place}.capabilities"
        bad = sorted(set(texts(capabilities, "add", place)) - allowed)
        if bad:
            found.append(FieldError(f"{place}.add", bad=tuple(bad), container=container))
    return found


def _host_namespaces(pod: Pod) -> Errors:
    keys = ("hostNetwork", "hostPID", "hostIPC")
    return [FieldError(f"spec.{key}", bad=True) for key in keys if flag(pod.spec, key, "spec")]


def _host_paths(pod: Pod) -> Errors:
    found = []
    for i, volume in enumerate(items(pod.spec, "volumes", "spec")):
        place = f"spec.volumes[{i}].hostPath"
        if (source := obj(volume, "hostPath", f"spec.volumes[{i}]")) is not None:
            found.append(FieldError(place, bad=text(source, "path", place)))
    return found


def _host_ports(pod: Pod) -> Errors:
    found = []
    for container in pod.containers:
        for i, port in enumerate(items(container.body, "ports", container.place)):
            place = f"{container.place}.ports[{i}]"
            if host := number(port, "hostPort", place):
                found.append(FieldError(f"{place}.hostPort", bad=host, container=container.name))
    return found


_HANDLERS: Final = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)


def _probe_hosts(pod: Pod) -> Errors:
    found = []
    for container in pod.containers:
        for path in _HANDLERS:
            handler, place = container.body, container.place
            if path[0] not in handler:
                continue
            for key in path:
                handler, place = obj(handler, key, place) or {}, f"{place}.{key}"
            for action in ("httpGet", "tcpSocket"):
                at = f"{place}.{action}"
                if host := text(obj(handler, action, place) or {}, "host", at):
                    found.append(FieldError(f"{at}.host", bad=host, container=container.name))
    return found


def _proc_mount(pod: Pod) -> Errors:
    found = []
    for context, place, container in pod.contexts:
        if context.get("procMount") is None:
            continue
        mount = text(context, "procMount", place)
        if mount != "Default":
            found.append(FieldError(f"{place}.procMount", bad=mount, container=container))
    return found


_SELINUX_TYPES: Final = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))


def _selinux(types: frozenset[str]) -> Run:
    def run(pod: Pod) -> Errors:
        found = []
        for context, place, container in pod.all_contexts:
            options, place = obj(context, "seLinuxOptions", place), f"{place}.seLinuxOptions"
            for key, allowed in (("type", types), ("user", frozenset(("",))), ("role", frozenset(("",)))):
                if (value := text(options or {}, key, place)) not in allowed:
                    found.append(FieldError(f"{place}.{key}", bad=value, container=container))
        return found

    return run


_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp_annotations(pod: Pod) -> Errors:
    """Before Kubernetes 1.19 seccomp was a matter of annotations."""
    keys = {_SECCOMP_POD, *(_SECCOMP_CONTAINER + container.name for container in pod.containers)}
    found = []
    for key in sorted(keys & pod.annotations.keys()):
        value = pod.annotations[key]
        if value not in ("runtime/default", "docker/default") and not value.startswith("localhost/"):
            found.append(FieldError(f"metadata.annotations[{key}]", bad=value))
    return found


_SYSCTLS_0: Final = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    )
)  # fmt: skip
_SYSCTLS_27: Final = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: frozenset[str]) -> Run:
    def run(pod: Pod) -> Errors:
        context = obj(pod.spec, "securityContext", "spec") or {}
        found = []
        for i, sysctl in enumerate(items(context, "sysctls", "spec.securityContext")):
            place = f"spec.securityContext.sysctls[{i}]"
            if (name := text(sysctl, "name", place)) not in allowed:
                found.append(FieldError(f"{place}.name", bad=name))
        return found

    return run


# Restricted


def _escalation(pod: Pod) -> Errors:
    found = []
    for context, place, container in pod.contexts:
        allowed = flag(context, "allowPrivilegeEscalation", place)
        if allowed is not False:
            kind: Literal["required", "forbidden"] = "required" if allowed is None else "forbidden"
            bad: Any = "" if allowed is None else True
            found.append(FieldError(f"{place}.allowPrivilegeEscalation", kind, bad, container))
    return found


def _dropped(pod: Pod) -> Errors:
    """Every container must drop ALL, and may add no capability but one."""
    found = []
    for context, place, container in pod.contexts:
        capabilities, place = obj(context, "capabilities", place) or {}, f"{place}.capabilities"
        drop = texts(capabilities, "drop", place)
        if not drop:
            found.append(FieldError(f"{place}.drop", "required", container=container))
        elif "ALL" not in drop:
            found.append(FieldError(f"{place}.drop", bad=tuple(sorted(set(drop))), container=container))
    return found + _added(pod, frozenset(("NET_BIND_SERVICE",)))


def _volumes(pod: Pod) -> Errors:
    found = []
    for i, volume in enumerate(items(pod.spec, "volumes", "spec")):
        place = f"spec.volumes[{i}]"
        if any(obj(volume, source, place) is not None for source in _ALLOWED_SOURCES):
            continue
        source = next((s for s in _FORBIDDEN_SOURCES if obj(volume, s, place) is not None), "unknown")
        found.append(FieldError(f"{place}.{source}"))
    return found


_ALLOWED_SOURCES: Final = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_FORBIDDEN_SOURCES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def _non_root(pod: Pod) -> Errors:
    """What says ``runAsNonRoot: false``, then containers for which neither they nor the Pod say anything."""
    said: Errors = []
    unsaid: Errors = []
    covered = False
    for context, place, container in pod.all_contexts:
        value, place = flag(context, "runAsNonRoot", place), f"{place}.runAsNonRoot"
        if value is False:
            said.append(FieldError(place, bad=False, container=container))
        elif container is None:
            covered = value is True
        elif value is None and not covered:
            unsaid.append(FieldError(place, "required", container=container))
    return said + unsaid


def _root_user(pod: Pod) -> Errors:
    return [
        FieldError(f"{place}.runAsUser", bad=0, container=container)
        for context, place, container in pod.all_contexts
        if number(context, "runAsUser", place) == 0
    ]


def _seccomp(pod: Pod) -> Errors:
    """Wrong profiles; where there are none, containers for which neither they nor the Pod name one."""
    said: Errors = []
    unsaid: Errors = []
    covered = False
    for kind, place, container in _profiles(pod, "seccompProfile"):
        place = f"{place}.seccompProfile.type"
        if kind is not None and kind not in _PROFILES:
            said.append(FieldError(place, bad=kind, container=container))
        elif container is None:
            covered = kind is not None
        elif kind is None and not covered:
            unsaid.append(FieldError(place, "required", container=container))
    return said or unsaid


CHECKS: Final = (
    Check(
        "allowPrivilegeEscalation",
        "Privilege Escalation",
        "restricted",
        "allowPrivilegeEscalation != false",
        ((8, _escalation), (25, _not_on_windows(_escalation))),
    ),
    Check(
        "appArmorProfile",
        "AppArmor",
        "baseline",
        "forbidden AppArmor profile",
        ((0, _app_armor),),
        plural="forbidden AppArmor profiles",
    ),
    Check(
        "capabilities_baseline",
        "Capabilities",
        "baseline",
        "non-default capabilities",
        ((0, lambda pod: _added(pod, _DEFAULT_CAPABILITIES)),),
    ),
    Check(
        "capabilities_restricted",
        "Capabilities",
        "restricted",
        "unrestricted capabilities",
        ((22, _dropped), (25, _not_on_windows(_dropped))),
    ),
    Check("hostNamespaces", "Host Namespaces", "baseline", "host namespaces", ((0, _host_namespaces),)),
    Check("hostPathVolumes", "HostPath Volumes", "baseline", "hostPath volumes", ((0, _host_paths),)),
    Check("hostPorts", "Host Ports", "baseline", "hostPort", ((0, _host_ports),)),
    Check(
        "hostProbesAndHostLifecycle",
        "Host Probes / Lifecycle Hooks",
        "baseline",
        "probe or lifecycle host",
        ((34, _probe_hosts),),
    ),
    Check("privileged", "Privileged Containers", "baseline", "privileged", ((0, _flag_is(True, "privileged")),)),
    Check(
        "procMount",
        "/proc Mount Type",
        "baseline",
        "procMount",
        ((0, _proc_mount), (35, _not_with_own_users(_proc_mount))),
    ),
    # From 1.35 on baseline lets Pods with users of their own be, and this one takes over for restricted. The reference
    # knows no check that replaces another; here it does, so that nothing is said twice.
    Check(
        "procMount_restricted",
        "/proc Mount Type",
        "restricted",
        "procMount",
        ((35, _proc_mount),),
        replaces="procMount",
    ),
    Check("restrictedVolumes", "Volume Types", "restricted", "restricted volume types", ((0, _volumes),)),
    Check(
        "runAsNonRoot",
        "Running as Non-root",
        "restricted",
        "runAsNonRoot != true",
        ((0, _non_root), (35, _not_with_own_users(_non_root))),
    ),
    Check(
        "runAsUser",
        "Running as Non-root user",
        "restricted",
        "runAsUser=0",
        ((23, _root_user), (35, _not_with_own_users(_root_user))),
    ),
    Check(
        "seLinuxOptions",
        "SELinux",
        "baseline",
        "seLinuxOptions",
        ((0, _selinux(_SELINUX_TYPES)), (31, _selinux(_SELINUX_TYPES | {"container_engine_t"}))),
    ),
    Check(
        "seccompProfile_baseline",
        "Seccomp",
        "baseline",
        "seccompProfile",
        ((0, _seccomp_annotations), (19, _type_is_allowed("seccompProfile", _PROFILES))),
    ),
    Check(
        "seccompProfile_restricted",
        "Seccomp",
        "restricted",
        "seccompProfile",
        ((19, _seccomp), (25, _not_on_windows(_seccomp))),
    ),
    Check(
        "sysctls",
        "Sysctls",
        "baseline",
        "forbidden sysctls",
        (
            (0, _sysctls(_SYSCTLS_0)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    Check(
        "windowsHostProcess",
        "HostProcess",
        "baseline",
        "hostProcess",
        ((0, _flag_is(True, "windowsOptions", "hostProcess", pod=True)),),
    ),
)
"""Every check, in the order in which violations are told."""

NEWEST: Final = max(since for check in CHECKS for since, _ in check.versions)
"""The newest minor version at which some check changes."""
