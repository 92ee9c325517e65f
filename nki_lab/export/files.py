"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nki_lab.diagnostic import NkiError, diagnose, error_of


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write into, which takes the name `path` when all is written; until then what was there stays.

    Raises NKI021 if the disk does not take it.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        try:
            with draft.open("xb") as stream:
                yield stream
            draft.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        if isinstance(error, NkiError):
            raise
        raise unwritten(target, error) from error


def unwritten(path: Path, error: OSError) -> NkiError:
    """The error that says why a file could not be written."""
    return error_of(
        diagnose(
            "NKI021",
            f"{path}: not written: {os.strerror(error.errno) if error.errno else error}",
            help="make room, or choose a place that you may write to; what was there before is unchanged",
        )
    )
