"""A cluster that the command line asks while it evaluates: for ``--record``.

Evaluation is synchronous, the client is not: each call runs a loop of its own to its end.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Final

from runtime.context.cluster import Answers
from runtime.context.egress import Egress
from runtime.context.services import Services
from runtime.k8s.client import HttpKubeClient, connect
from runtime.k8s.errors import Unreachable
from vm.host import HostCall
from vm.values import Err, Value

SECONDS: Final = 30.0


class Live:
    """``with Live(context) as live`` connects to the cluster of the kubeconfig. Raises :class:`Unreachable` there."""

    def __init__(self, kubeconfig: str | None = None) -> None:
        self._kubeconfig = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        self._runner = asyncio.Runner()
        self._client: HttpKubeClient | None = None
        self._answers: Answers | None = None

    def __enter__(self) -> Live:
        try:
            self._runner.run(self._open())
        except BaseException:
            self._runner.close()
            raise
        return self

    async def _open(self) -> None:
        self._client = await connect(self._kubeconfig, lambda verb, resource, namespace: None)
        self._answers = Answers(self._client, Services(Egress.of()))

    def ask(self, call: HostCall) -> Value:
        """The cluster's answer to the call of a context entry."""
        return self._runner.run(self._ask(call))

    async def _ask(self, call: HostCall) -> Value:
        if self._answers is None:
            return Err("host", "the cluster is not connected")
        try:
            async with asyncio.timeout(SECONDS):
                return await self._answers.ask(call)
        except TimeoutError:
            return Err("host", "the API server did not answer in time")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._runner.run(self._client.close())
        self._runner.close()


__all__ = ["Live", "Unreachable"]
