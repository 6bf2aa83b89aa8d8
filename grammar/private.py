"""Files that only this user may have written, for what is dear to make and may be made again at any time.

``grammar.loader`` keeps the tables of parsers in the folder of the user, ``vm.kept_code`` generated code,
``runtime.cli.kept`` what command lines have compiled. Whoever can write to such a file decides what this process does:
a file counts only when it is this user's, nobody else may write to it or to its folder, and it is what was written.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

SWITCH: Final = "THESMOS_NO_CACHE"
"""Set in the environment, what was compiled or generated is neither kept nor looked for."""

_DIGEST: Final = 32
_MOST_BYTES: Final = 256 << 20


def folder() -> Path | None:
    """The user's cache folder, None where there is none that counts."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = Path(home) / "thesmos"
    return found if made(found) else None


def made(place: Path) -> bool:
    """Whether a folder is there that only this user can write to; it is made where it is missing."""
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return is_own(place)


def is_own(place: Path) -> bool:
    """Whether a folder is this user's and nobody else can write to it."""
    try:
        state = place.stat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and _is_ours(state) and not state.st_mode & 0o022 and os.access(place, os.W_OK)


def read(path: Path) -> bytes | None:
    """What :func:`write` has written; None when there is no such file, or when it does not count."""
    if not is_own(path.parent):
        return None
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        with os.fdopen(opened, "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or not _is_ours(state) or state.st_mode & 0o077:
                return None
            data = file.read() if state.st_size <= _MOST_BYTES else b""
    except OSError:
        return None
    body = data[_DIGEST:]
    return body if sha256(body).digest() == data[:_DIGEST] else None


def write(path: Path, body: bytes) -> bool:
    """Puts a file there for :func:`read`; whoever reads meanwhile finds the old file or the new one, whole. Whether it
    could be written: where not, nothing is left behind."""
    if not made(path.parent):
        return False
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(sha256(body).digest() + body)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        return False
    return True


def prune(place: Path, most: int) -> None:
    """Removes the older half of the files of a folder when there are too many."""
    with contextlib.suppress(OSError):
        files = list(os.scandir(place))
        if len(files) > most:
            for entry in sorted(files, key=lambda e: e.stat().st_mtime)[: len(files) // 2]:
                os.unlink(entry.path)


@cache
def installed(*packages: str) -> bytes:
    """A digest of the files that packages are made of, by their names, sizes and times: of when they were written and
    of when they came to be here, as builds may give all of their files one time. Reading them would take 35 ms."""
    found = sha256()
    for package in packages:
        root = Path(__file__).parent.parent / package
        for at in _files([str(root)]):
            state = os.stat(at)
            found.update(f"{at}\0{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}\0".encode())
    return found.digest()


def _files(folders: list[str]) -> Iterable[str]:
    """Files below folders in a fixed order, without what Python keeps of modules."""
    for folder in folders:
        inner = sorted(os.scandir(folder), key=lambda e: e.name)
        yield from (e.path for e in inner if e.is_file())
        yield from _files([e.path for e in inner if e.is_dir() and e.name != "__pycache__"])


def _is_ours(state: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
