"""The cache of profiles on disk: recordings under the digest of everything that they depend on.

An entry is a folder as `run.save` writes it, and is read as hostile: nothing in it is executed, and one that is damaged
is dropped. Processes share the cache without locks, since an entry appears under its name when it is complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import NkiError
from nki_lab.file_system import remove_folder, take_name
from nki_lab.kernel_runtime.recording import Recording

LIMIT: Final = 512 * 2**20
"""Bytes that all entries together may take; the ones unused for longest go first."""

_WANTING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_STALE: Final = 3600.0  # seconds after which a draft is nobody's
_NAME: Final = re.compile(r"[0-9a-f]{64}\.nkirec")
_DRAFT: Final = re.compile(r"[0-9a-f]{64}\.nkirec\.[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A profile in the cache: its folder, its bytes, and when it was last used, in seconds since 1970."""

    path: Path
    nbytes: int
    used: float


def can_save() -> bool:
    """Whether recordings can be written and read: pyarrow is installed."""
    return find_spec("pyarrow") is not None


def _is_sound(error: BaseException | None) -> bool:
    """Whether an entry could not be read for want of something that this process lacks: files, memory."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _WANTING:
            return True
        error = error.__cause__
    return False


class ProfileCache:
    """The profiles in one folder. All failures of the disk mean that nothing is found or kept."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit

    def find(self, digest: str) -> Recording | None:
        """Return a recording; None where there is none that can be trusted."""
        path = self._path(digest)
        try:
            if not path.is_dir() or not self._is_ours():
                return None
        except OSError:  # a name that is too long
            return None
        try:
            recording = Recording.open(path)
        except (NkiError, OSError) as error:
            if not _is_sound(error):
                remove_folder(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return recording

    def keep(self, digest: str, recording: Recording) -> bool:
        """Keep a recording, unless the folder refuses; return whether it is there."""
        path = self._path(digest)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return False
            recording.save(draft)
            take_name(draft, path)  # refuses to replace an entry, which is then another process's
        except (NkiError, OSError):
            with contextlib.suppress(OSError):
                remove_folder(draft)
                return path.is_dir()
            return False
        self._shrink(path)
        return True

    def entries(self) -> list[Entry]:
        """Return the entries, the one used last first."""
        found = []
        for path in self._folders(_NAME):
            with contextlib.suppress(OSError):
                size = sum(file.stat().st_size for file in path.iterdir())
                found.append(Entry(path, size, path.stat().st_mtime))
        return sorted(found, key=lambda item: -item.used)

    def clear(self) -> int:
        """Remove all entries; return how many are gone."""
        found = [*self._folders(_NAME), *self._folders(_DRAFT)]
        for path in found:
            remove_folder(path)
        return sum(not path.exists() for path in found)

    def refusal(self) -> str:
        """Return why nothing is kept in the folder, and the remedy; empty where it is fine, or not there yet."""
        try:
            if not self.folder.exists():
                return "it is a link that leads nowhere" if self.folder.is_symlink() else ""
        except OSError as error:
            return f"not a name for a folder: {error.strerror}"
        if not self.folder.is_dir():
            return "it is not a folder"
        if not self._is_ours():
            return "others may write into it: make it a folder of yours, with the rights 700"
        return "" if os.access(self.folder, os.R_OK | os.W_OK | os.X_OK) else "you may not write into it"

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.nkirec"

    def _folders(self, name: re.Pattern[str]) -> Iterator[Path]:
        """Yield the folders of that kind of name: whatever else is there is not ours."""
        with contextlib.suppress(OSError):
            for item in os.scandir(self.folder):
                if name.fullmatch(item.name) and item.is_dir(follow_symlinks=False):
                    yield Path(item.path)

    def _is_ours(self) -> bool:
        """Whether nobody else can write into the folder."""
        if os.name == "nt":  # there folders of a profile are its user's
            return True
        try:
            found = self.folder.stat()
        except OSError:
            return False
        return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

    def _shrink(self, newest: Path) -> None:
        """Remove what is too much, and drafts that a process has left behind."""
        found = self.entries()
        total = sum(item.nbytes for item in found)
        for item in reversed(found):
            if total <= self.limit:
                break
            if item.path != newest:
                remove_folder(item.path)
                total -= item.nbytes
        now = newest.stat().st_mtime if newest.exists() else 0.0
        for draft in self._folders(_DRAFT):
            with contextlib.suppress(OSError):
                if now - draft.stat().st_mtime > _STALE:
                    remove_folder(draft)
