"""Random Pods around the edges of the Pod Security Standards: each setting that some check looks at, right, wrong,
empty or absent. Used by the test against Kubernetes' own checks."""

from __future__ import annotations

from random import Random
from typing import Any, Final

_PROFILES: Final = ({}, {"type": "RuntimeDefault"}, {"type": "Localhost"}, {"type": "Unconfined"}, None)
_CAPABILITIES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"drop": ["ALL"]},
    {"drop": ["ALL", "X"], "add": ["NET_BIND_SERVICE"]},
    {"drop": ["X"]},
    {"add": ["CHOWN"]},
    {"add": ["SYS_ADMIN", "KILL"], "drop": ["ALL"]},
    {"add": None},
)
_HANDLERS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"httpGet": {"host": "", "port": 80}},
    {"httpGet": {"host": "192.0.2.1", "port": 80}},
    {"tcpSocket": {"host": "h", "port": 1}},
)
_SYSCTLS: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_rmem",
    "kernel.msgmax",
)
_SOURCES: Final = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
    "hostPath", "nfs", "gitRepo", "fc", "rbd",
)  # fmt: skip
_ANNOTATIONS: Final = (
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/a0",
    "container.apparmor.security.beta.kubernetes.io/a0",
    "example.com/x",
)
_ANNOTATED: Final = ("", "runtime/default", "docker/default", "localhost/x", "unconfined")


def pod(random: Random) -> dict[str, Any]:
    """A Pod; most have a few things wrong."""
    maker = _Maker(random)
    spec: dict[str, Any] = {"containers": [maker.container(i) for i in range(random.randint(0, 2))]}
    maker.maybe(spec, "initContainers", 0.3, lambda: [maker.container(5)])
    maker.maybe(spec, "ephemeralContainers", 0.2, lambda: [maker.container(7)])
    maker.maybe(spec, "securityContext", 0.6, lambda: maker.context(of_pod=True))
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        maker.maybe(spec, key, 0.1, lambda: random.choice((True, False, None)))
    maker.maybe(spec, "hostUsers", 0.2, lambda: random.choice((True, False)))
    maker.maybe(spec, "os", 0.15, lambda: {"name": random.choice(("windows", "linux"))})
    maker.maybe(spec, "volumes", 0.3, lambda: [maker.volume() for _ in range(random.randint(0, 2))])
    metadata: dict[str, Any] = {"name": "p"}
    maker.maybe(metadata, "annotations", 0.3, lambda: {random.choice(_ANNOTATIONS): random.choice(_ANNOTATED)})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random

    def maybe(self, holder: dict[str, Any], key: str, chance: float, value: Any) -> None:
        if self.random.random() < chance:
            holder[key] = value()

    def volume(self) -> dict[str, Any]:
        if self.random.random() < 0.1:
            return {"name": "unknown"}
        return {"name": "v", self.random.choice(_SOURCES): {}}

    def container(self, number: int) -> dict[str, Any]:
        random = self.random
        found: dict[str, Any] = {
            "name": f"{random.choice('abc')}{number}",
            "image": random.choice(("nginx:1", "busybox")),
        }
        self.maybe(found, "securityContext", 0.8, lambda: self.context(of_pod=False))
        self.maybe(found, "ports", 0.2, lambda: [{"containerPort": 1, "hostPort": random.choice((0, 80))}])
        for key in ("livenessProbe", "readinessProbe", "startupProbe"):
            self.maybe(found, key, 0.1, lambda: random.choice(_HANDLERS))
        hook = random.choice(("postStart", "preStop"))
        self.maybe(found, "lifecycle", 0.1, lambda: {hook: random.choice(_HANDLERS)})
        return found

    def context(self, *, of_pod: bool) -> dict[str, Any]:
        random = self.random
        found: dict[str, Any] = {}
        self.maybe(found, "runAsNonRoot", 0.3, lambda: random.choice((True, False)))
        self.maybe(found, "runAsUser", 0.2, lambda: random.choice((0, 1000)))
        self.maybe(found, "seccompProfile", 0.3, lambda: random.choice(_PROFILES))
        self.maybe(found, "appArmorProfile", 0.2, lambda: random.choice(_PROFILES))
        options = ("container_t", "container_engine_t", "x", "", None)
        self.maybe(
            found, "seLinuxOptions", 0.2, lambda: {random.choice(("type", "user", "role")): random.choice(options)}
        )
        self.maybe(
            found, "windowsOptions", 0.2, lambda: random.choice(({}, {"hostProcess": True}, {"hostProcess": False}))
        )
        if of_pod:
            self.maybe(found, "sysctls", 0.2, lambda: [{"name": random.choice(_SYSCTLS)}])
            return found
        self.maybe(found, "privileged", 0.2, lambda: random.choice((True, False, None)))
        self.maybe(found, "allowPrivilegeEscalation", 0.5, lambda: random.choice((True, False, False, False)))
        self.maybe(found, "procMount", 0.2, lambda: random.choice(("Default", "Unmasked", "", None)))
        self.maybe(found, "capabilities", 0.6, lambda: random.choice(_CAPABILITIES))
        return found
