"""The builder that is recording in this thread, and the call-site of whoever called into nki_lab."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from nki_lab.diagnostic import diagnose, error_of

if TYPE_CHECKING:
    from nki_lab.kernel_runtime.frontend.issue import Builder


class _Local(threading.local):
    builder: Builder | None = None


local = _Local()


def current(what: str = "this function") -> Builder:
    """The builder of the kernel being specialised; NKI005 outside a kernel."""
    builder = local.builder
    if builder is None:
        raise error_of(
            diagnose(
                "NKI005",
                f"{what} is called outside a kernel",
                limit="nki.isa and nki.language functions record instructions of the kernel that calls them",
                help="decorate the calling function with @nki.jit and call it with arrays",
            )
        )
    return builder


@contextmanager
def recording(builder: Builder) -> Iterator[Builder]:
    """Make `builder` the one that instructions are recorded into; the former one is restored on the way out."""
    former = local.builder
    local.builder = builder
    try:
        yield builder
    finally:
        local.builder = former


_ours: dict[int, tuple[bool, CodeType]] = {}  # by id, since hashing code takes longer than all the rest; kept alive


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of nki_lab, as against the user's."""
    code = frame.f_code
    known = _ours.get(id(code))
    if known is None:
        name = frame.f_globals.get("__name__", "")
        ours = isinstance(name, str) and (name == "nki_lab" or name.startswith("nki_lab."))
        known = _ours[id(code)] = (ours, code)
    return known[0]


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of user code, seen from `depth` frames above this call."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return frame
