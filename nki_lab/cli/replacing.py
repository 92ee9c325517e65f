"""A source file that is replaced: whole or not at all, and only while it is as it was read."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from nki_lab.diagnostic import Span, diagnose, error_of


def replace_file(path: Path, before: bytes, after: bytes) -> None:
    """Put `after` into the place of `before`, with the same rights; a link stays a link.

    Raises NKI021 where the disk does not take it, or where somebody has changed the file since it was read.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        shutil.copymode(target, draft)
        if target.read_bytes() != before:
            raise OSError(0, "it was changed while it was checked")
        draft.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise error_of(
            diagnose(
                "NKI021",
                f"{path}: not written: {reason}",
                span=Span(str(path), 1, 1, 1, 2),
                help="check that its folder may be written to; the file is unchanged",
            )
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
