"""The part of an installation that generates: the processor of update requests, the life of the rules, the watches."""

from __future__ import annotations

import asyncio

from runtime.controllers.drift import Drift
from runtime.controllers.generatepolicies import GeneratePolicies
from runtime.controllers.generation import Generation
from runtime.controllers.installation import Installation


class GeneratePart:
    """Registers with the queue of update requests; :meth:`run` does what no request sets off."""

    name = "generate"

    def __init__(self, installation: Installation) -> None:
        self.generation = Generation(installation)
        self._policies = GeneratePolicies(installation, self.generation)
        self._drift = Drift(installation, self.generation)
        installation.requests.processors["generate"] = self.generation.process

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._policies.run())
            group.create_task(self._drift.run())

    def policies_changed(self) -> None:
        """Both look again."""
        self._policies.look()
        self._drift.look()
