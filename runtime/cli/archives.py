"""Reads the YAML and JSON files of ``.tar.gz`` archives, without writing anything to disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from runtime.bundles import reason
from runtime.cli.problem import Problem

SUFFIXES: Final = (".tar.gz", ".tgz")
READ: Final = (".yaml", ".yml", ".json")
MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes unpacked from one archive: what a small file unpacks to has no other bound."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file within an archive, shown as ``archive!name``."""

    archive: Path
    name: str
    text: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.archive}!{self.name}"


def is_archive(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.is_file()


def members(path: Path) -> list[Member]:
    """The YAML and JSON files of an archive in sorted order, hidden ones left out. Raises :class:`Problem`."""
    import tarfile
    import zlib

    found: list[Member] = []
    left = MAX_BYTES
    try:
        with tarfile.open(path, "r:gz") as archive:
            for info in archive:
                name = PurePosixPath(info.name)
                hidden = any(part.startswith(".") and part != "." for part in name.parts)
                left -= info.size
                if left < 0:
                    raise Problem(f"{path}: unpacks to more than {MAX_BYTES // 1024 // 1024} MiB")
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
