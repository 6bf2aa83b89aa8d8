"""Work that can wait, on one thread of its own: generating tier 2 while tier 1 answers.

Translating a function takes about 1 ms: a request that reaches 1,000 policies for the first time would wait for
seconds.
``runtime.bundles`` hands :func:`later` to the programs of a server and of ``apply``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeAlias

Job: TypeAlias = Callable[[], object]

_log = logging.getLogger(__name__)
_jobs: Final[SimpleQueue[Job]] = SimpleQueue()
_start = threading.Lock()
_thread: threading.Thread | None = None


def later(job: Job) -> None:
    """Runs a job after those handed in before it. One that fails is logged and leaves the others alone."""
    global _thread
    _jobs.put(job)
    if _thread is None:
        with _start:
            if _thread is None:
                _thread = threading.Thread(target=_work, name="thesmos-background", daemon=True)
                _thread.start()


def _work() -> None:
    while True:
        job = _jobs.get()
        start = time.perf_counter()
        try:
            job()
        except Exception:
            _log.exception("work in the background failed")
        # Requests share the interpreter lock with this thread: it takes half of one core at the most.
        time.sleep(time.perf_counter() - start)
