"""Applies the custom resource definitions that the compiler's schema package ships, and waits until they are served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from runtime.k8s.client import HttpKubeClient, Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CRD

log = logging.getLogger("thesmos.crds")

MANAGER: Final = "thesmos"
WAIT_SECONDS: Final = 30.0


async def apply_crds(client: HttpKubeClient, asked: Collection[str] = ()) -> None:
    """Server-side apply of every definition; returns once each is established. ``asked`` names kinds that not every
    installation has (``openreports``). Raises the errors of the client."""
    from compiler.schema import crd_manifests

    manifests = crd_manifests(asked)
    for manifest in manifests:
        await client.apply(CRD, manifest, MANAGER)
    async with asyncio.timeout(WAIT_SECONDS):
        for manifest in manifests:
            while not _established(await client.get(CRD, manifest["metadata"]["name"])):
                await asyncio.sleep(0.1)
    log.info("%d custom resource definitions are served", len(manifests))


def _established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


async def served(client: HttpKubeClient, name: str) -> bool:
    """Whether a definition is there and established."""
    try:
        return _established(await client.get(CRD, name))
    except ApiProblem as problem:
        if problem.missing:
            return False
        raise
