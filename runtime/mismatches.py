"""Where the tiers of the VM differ, as ``--tier=check`` finds it: counted, told in the log, and the first cases
written to files, to be run again. ``runtime.bundles`` and ``runtime.fusing`` compare; the command line and ``/metrics``
tell how many there were.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vm.host import Meter, Outcome, Status

if TYPE_CHECKING:
    from runtime.observe.metrics import Metrics

Run = Callable[[int, dict[str, Any], Meter], Any]

CASES: Final = 10
"""Cases that are written down: what differs once, differs for each such request."""

_LOG: Final = logging.getLogger("thesmos.tiers")


@dataclass(slots=True)
class Mismatches:
    """What ``tier="check"`` has seen: how many answers differed, and where the last few did. ``folder`` is where cases
    are written to, once there are some: only this user can read it, as objects may hold secrets."""

    compared: int = 0
    count: int = 0
    last: list[str] = field(default_factory=list)
    folder: str = ""
    counted: int = 0
    """How many the metric knows of."""

    def add(self, what: str, root: Mapping[str, Any]) -> None:
        """Takes note of a difference in what was said of a root."""
        self.count += 1
        self.last = [*self.last[-9:], what]
        if self.count <= CASES:
            from runtime.observe.logs import fields  # here: nobody else needs it on the way to a first answer

            _LOG.error("the tiers differ: %s", what, extra=fields(case=self._written(what, root)))

    def _written(self, what: str, root: Mapping[str, Any]) -> str:
        """The file of a case, empty where none can be written."""
        from runtime.host import KEY as HOST

        case = {"difference": what, "root": {k: v for k, v in root.items() if k != HOST}}
        try:
            self.folder = self.folder or tempfile.mkdtemp(prefix="thesmos-mismatches-")
            path = os.path.join(self.folder, f"{self.count}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(case, file, default=repr, indent=1)
        except (OSError, ValueError):
            return ""
        return path

    def tell(self, metrics: Metrics) -> None:
        """Brings in what has come since."""
        if self.count > self.counted:
            metrics.count("thesmos_tier_mismatches_total", by=self.count - self.counted)
            self.counted = self.count


def compared(first: Run, second: Run, mismatches: Mismatches) -> Run:
    """Runs both tiers, counts where they differ in outcome or fuel, and answers with the first's."""
    from random import Random, getrandbits

    def run(entry: int, root: dict[str, Any], meter: Meter) -> Any:
        start, spent = meter.left, meter.spent
        seed = getrandbits(64)
        meter.dice = Random(seed)
        answer = first(entry, root, meter)
        other_meter = Meter(
            meter.limit, cost_limit=meter.cost_limit, budget=meter.budget, context_limit=meter.context_limit
        )
        other_meter.spent = spent
        other_meter.dice = Random(seed)
        other_meter.left = start
        other = second(entry, root, other_meter)
        mismatches.compared += 1
        if answer != other or meter.left != other_meter.left:
            told = f"{_brief(answer)}, fuel {meter.left} and {_brief(other)}, {other_meter.left}"
            mismatches.add(f"function {entry}: {told}", root)
        return answer

    return run


def _brief(answer: Any) -> str:
    if isinstance(answer, Outcome):
        return f"{Status(answer.status).name.lower()} {answer.message or ''}".strip()
    return repr(answer)[:80]
