"""What a running Thesmos reports, and how often it scans: the part of the settings that policy reports follow.

Made by ``runtime.webhook.reportflags`` from flags; read by the controllers of reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STATUSES: Final = frozenset(("pass", "fail", "warn", "error", "skip"))
RULES: Final = ("validate", "mutate", "mutateExisting", "generate", "imageVerify")
"""Kinds of rules that reports can hold, in Kyverno's words."""


@dataclass(frozen=True, slots=True)
class Reporting:
    """``admission``: results of admission are reported; ``write``: reports are written at all; ``openreports``: as
    those of ``openreports.io``. ``rules`` and ``statuses`` are the kinds of rules and the results that reports hold.
    ``most`` objects may wait for what admission says of them.

    ``scan``: the cluster is scanned in the background, every ``seconds``; ``workers`` kinds are listed at a time;
    ``filtered``: resource filters hold for scans too; ``native``: the API server's own validating policies are scanned
    with as well.
    """

    admission: bool = True
    write: bool = True
    openreports: bool = False
    rules: frozenset[str] = frozenset(RULES)
    statuses: frozenset[str] = STATUSES
    most: int = 1000
    scan: bool = True
    seconds: float = 3600.0
    workers: int = 2
    filtered: bool = False
    native: bool = False
