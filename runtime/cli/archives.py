"""Reads the YAML and JSON files of ``.tar.gz`` archives, without writing anything to disk."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import reason
from runtime.cli.problem import Problem

if TYPE_CHECKING:
    from gzip import GzipFile

SUFFIXES: Final = (".tar.gz", ".tgz")
READ: Final = (".yaml", ".yml", ".json")
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes unpacked from one archive: what a small file unpacks to has no other bound."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file within an archive, shown as ``archive!name``."""

    archive: Path
    name: str
    text: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.archive}!{self.name}"


class _Counted(io.RawIOBase):
    """A stream that ends in a :class:`Problem` once more was read from it than an archive may unpack to."""

    def __init__(self, stream: GzipFile, path: Path) -> None:
        self._stream = stream
        self._path = path
        self._left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise Problem(f"{self._path}: unpacks to more than {MAX_BYTES // 1024 // 1024} MiB")
        buffer[: len(data)] = data
        return len(data)


def is_archive(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.is_file()


def members(path: Path) -> list[Member]:
    """The YAML and JSON files of an archive in sorted order, hidden ones left out. Raises :class:`Problem`."""
    import gzip
    import tarfile
    import zlib

    found: list[Member] = []
    try:
        # Read as a stream, so that nothing of it, headers included, gets past the count of bytes.
        with gzip.open(path) as packed, tarfile.open(fileobj=_Counted(packed, path), mode="r|") as archive:
            for info in archive:
                name = PurePosixPath(info.name)
                hidden = any(part.startswith(".") and part != "." for part in name.parts)
                if hidden or name.suffix not in READ or not info.isfile():
                    continue
                file = archive.extractfile(info)
                if file is not None:
                    found.append(Member(path, str(name), file.read().decode()))
    except UnicodeDecodeError as error:
        raise Problem(f"{path}: {name} is no UTF-8 text (byte {error.start})") from None
    except (tarfile.TarError, zlib.error, EOFError):
        raise Problem(f"{path}: cannot be read as an archive") from None
    except OSError as error:
        raise Problem(f"{path}: {reason(error) if error.strerror else 'cannot be read as an archive'}") from None
    if not found:
        raise Problem(f"{path}: the archive holds no {', '.join(READ)} file")
    return sorted(found, key=lambda member: member.name)
