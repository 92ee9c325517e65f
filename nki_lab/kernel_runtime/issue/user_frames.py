"""Frames of the user's code on the stack, as against those of nki_lab."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

_ours: dict[int, tuple[bool, CodeType]] = {}  # by id, since hashing code takes longer than all the rest; kept alive


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of nki_lab, as against the user's."""
    known = _ours.get(id(frame.f_code))
    return (_judged(frame) if known is None else known)[0]


def _judged(frame: FrameType) -> tuple[bool, CodeType]:
    code = frame.f_code
    name = frame.f_globals.get("__name__", "")
    # contextlib: what stands between a function of ours and its caller where a context decorates it.
    ours = isinstance(name, str) and (name in ("nki_lab", "contextlib") or name.startswith("nki_lab."))
    found = _ours[id(code)] = (ours, code)
    return found


def user_frame(depth: int = 1) -> FrameType | None:
    """Return the innermost frame of user code, seen from `depth` frames above this call."""
    return outside(sys._getframe(depth))


def outside(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of user code, `frame` or one that led to it."""
    ours = _ours
    while frame is not None:
        known = ours.get(id(frame.f_code)) or _judged(frame)
        if not known[0]:
            return frame
        frame = frame.f_back
    return None
