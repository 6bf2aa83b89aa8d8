"""Code objects that were generated for a bundle, kept in a file: the next process need not generate them.

``runtime.bundles`` opens the file of a bundle, ``vm.tier2`` takes code from it and puts there what it had to generate.
A file is named by the bundle's digest and by the interpreter; what it holds was made for this very bundle by this very
version of the VM, or it does not count. Code objects are read as they are asked for: 1,000 policies take 5 MB of the
file and a tenth of the time in which they were generated, but hold memory only for what requests reach.

Whoever can write to the file decides what this process does: ``grammar.private`` takes it from nobody else.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from threading import Lock
from typing import Any, Final

from grammar import private

FORMAT: Final = 1
BESIDE: Final = ".thesmos-code"
"""The folder beside a bundle."""
MOST: Final = 200
"""Files in such a folder, beyond which the older half goes."""
_KEY: Final = 32
_GROWN: Final = 8
"""The file is written again when what has come is more than this part of its bytes: seldom, however code comes."""

Later = Callable[[Callable[[], object]], None]


class KeptCode:
    """What is kept for one bundle. ``places`` are folders in the order in which they are tried; ``later`` does what
    can wait."""

    def __init__(self, digest: bytes, places: Iterable[Path], later: Later) -> None:
        self._name = f"{digest.hex()}.{sys.implementation.cache_tag}"
        self._key = _key(digest)
        self._places = tuple(places)
        self._later = later
        self._lock = Lock()
        self._fresh: dict[str, bytes] = {}
        self._asked = False
        self._found = self._read()
        self._known = _size(self._found)
        self._come = 0

    def get(self, name: str) -> Any:
        """What was put there under a name, None when there is nothing. It is given out once."""
        data = self._found.pop(name, None)
        return None if data is None else marshal.loads(data)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def put(self, name: str, value: Any) -> None:
        """Keeps what ``marshal`` can write; the file is written later."""
        data = marshal.dumps(value)
        with self._lock:
            self._fresh[name] = data
            self._come += len(data)
            ask = not self._asked and self._come * _GROWN > self._known
            self._asked = self._asked or ask
        if ask:
            self._later(self.write)

    def write(self) -> None:
        """Writes what has come since, with what others may have written meanwhile."""
        with self._lock:
            fresh, self._fresh, self._come, self._asked = self._fresh, {}, 0, False
        if not fresh:
            return
        every = self._read() | fresh
        self._known = _size(every)
        body = self._key + marshal.dumps(every)
        for place in self._places:
            if private.write(place / self._name, body):
                private.prune(place, MOST)
                return

    def _read(self) -> dict[str, bytes]:
        for place in self._places:
            body = private.read(place / self._name)
            if body is not None and body[:_KEY] == self._key:
                found: dict[str, bytes] = marshal.loads(memoryview(body)[_KEY:])
                return found
        return {}


def _size(every: Mapping[str, bytes]) -> int:
    return sum(map(len, every.values()))


def places_for(bundle: Path) -> tuple[Path, ...]:
    """Where code of a bundle is kept: beside it where that folder is ours alone, else in the user's cache folder.
    Nowhere where that is switched off."""
    if os.environ.get(private.SWITCH):
        return ()
    near, home = bundle.absolute().parent, private.folder()
    found = (near / BESIDE if private.is_own(near) else None, None if home is None else home / "code")
    return tuple(place for place in found if place is not None)


def _key(digest: bytes) -> bytes:
    """All that code depends on: the bundle, what generates the code, and the interpreter that it is for."""
    parts = (str(FORMAT).encode(), digest, private.installed("vm"), sys.version.encode(), MAGIC_NUMBER)
    return sha256(b"\0".join(parts)).digest()
