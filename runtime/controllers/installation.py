"""What every part of a running installation works with: client, settings, policies, and what the parts share.

``runtime.controllers.cluster`` makes one :class:`Installation`; ``runtime.controllers.parts`` makes the parts of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from runtime.config import Settings
from runtime.controllers.updaterequests import UpdateRequests
from runtime.engine import RuleResult
from runtime.host import Ask
from runtime.k8s.client import HttpKubeClient
from runtime.k8s.discovery import Discovery
from runtime.observe.metrics import Metrics
from runtime.webhook.live import Live

if TYPE_CHECKING:
    from runtime.controllers.clusterconfig import ClusterConfig
    from runtime.controllers.leases import Shards
    from runtime.controllers.lookups import Lookups
    from runtime.controllers.policy import PolicyController
    from runtime.observe.events import Events
    from runtime.observe.policy_events import PolicyEvents


Outcome = Callable[[Mapping[str, Any], Sequence[RuleResult]], None]
"""Takes the object that set rules off, and their results with the properties for its report. Returns at once."""


@dataclass(slots=True)
class Installation:
    """``discovery`` tells which resources the cluster has; with True it is asked anew. ``ask`` answers the host calls
    of rules. ``config`` is a function, since the ConfigMap may change at any time. ``follow`` makes the webhook
    configurations and the status be looked at again. ``tell`` is who tells what policies did, as events. ``requests``
    takes work that is left for later. ``outcomes`` are told what rules of the background did because of an object.
    ``lookups`` is behind ``ask``."""

    client: HttpKubeClient
    settings: Settings
    live: Live
    metrics: Metrics
    policies: PolicyController
    discovery: Callable[[bool], Awaitable[Discovery]]
    ask: Ask
    config: Callable[[], ClusterConfig]
    events: Events
    shards: Shards
    follow: Callable[[], None]
    tell: PolicyEvents
    requests: UpdateRequests = field(init=False)
    outcomes: list[Outcome] = field(default_factory=list)
    lookups: Lookups | None = None

    def __post_init__(self) -> None:
        self.requests = UpdateRequests(self.client, self.settings.names, self.shards, self.config, self.metrics)

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, Any]]:
        """The Namespaces by name, as ``runtime.webhook.live.slim_namespace`` leaves them."""
        return self.live.namespaces or {}


class Part(Protocol):
    """One of the controllers of an installation."""

    name: str

    async def run(self) -> None:
        """Until cancelled. Never ends for an API server that is away or an object that is wrong."""

    def policies_changed(self) -> None:
        """A new policy set is live. Called from the loop: sets a flag and returns."""
