"""Answers to a page that asks for values: a message, or the reason why there is none.

The page asks {"kind": "values", "request": n, "step": s, "buffer": b, "when": one of `TIMES`, "against": a reference or
"", "excerpt": [row, column]} and gets {"kind": "values", "request": n} with a message of `nki_lab.wire.values`, or with
"reason". To {"kind": "nonfinite", "request": n, "step": s, "until": u} it gets "step", -1: none, and "until", where to
go on, -1: nowhere. To {"kind": "growth", "request": n} it gets the fields of `ErrorGrowth`, and to {"kind": "indices",
"request": n, "step": s, "view": v} those of `IndexUse`. {"kind": "pin", "request": n, "step": s, "buffer": b} keeps a
tile as `Run.pin` does, and gets its message. Whatever goes wrong is a reason: the kernel goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.protocols import TileSource
from nki_lab.wire.values import TIMES, ValuesAsked, encode_values

_SECONDS: Final = 1.0
"""How long a search may keep the kernel before the page is told how far it came."""
UNKNOWN: Final = "The values are unknown here: the run failed before they were computed."


Pinning = Callable[[int, int], bytes]
"""Keeps a picture of a buffer after a step, and returns its message."""
_NO_PIN: Final = "Nothing can be pinned here."


def answer(
    tiles: TileSource | None, asked: Mapping[str, object], pin: Pinning | None = None
) -> tuple[dict[str, object], bytes | None] | None:
    """Return what the page is told, with a message if there is one; None if it asks for something else."""
    kind, request = asked.get("kind"), asked.get("request")
    if kind not in {"values", "nonfinite", "growth", "indices", "pin"} or not _is_count(request):
        return None
    told: dict[str, object] = {"kind": kind, "request": request}
    if tiles is None or tiles.reason:
        return {**told, "reason": _sentence(tiles.reason if tiles else "values not recorded")}, None
    try:
        if kind == "nonfinite":
            found = tiles.next_nonfinite(_number(asked, "step"), _number(asked, "until", -1), _SECONDS)
            return {**told, "step": found.step, "until": found.until}, None
        if kind == "growth":
            return {**told, **tiles.growth()._asdict()}, None
        if kind == "pin":
            if pin is None:
                return {**told, "reason": _NO_PIN}, None
            return told, pin(_number(asked, "buffer"), _number(asked, "step"))
        if kind == "indices":
            use = tiles.indices(_number(asked, "step"), _number(asked, "view"))
            return {**told, **({"reason": UNKNOWN} if use is None else use._asdict())}, None
        content = _values(tiles, asked)
    except KeyboardInterrupt:
        return {**told, "reason": "Cancelled."}, None
    except NkiError as error:
        return {**told, "reason": _sentence(error.diagnostics[0].message)}, None
    except Exception as error:  # noqa: BLE001 - the page says it, the kernel goes on
        return {**told, "reason": _sentence(str(error) or type(error).__name__)}, None
    return ({**told, "reason": UNKNOWN}, None) if content is None else (told, content)


def _values(tiles: TileSource, asked: Mapping[str, object]) -> bytes | None:
    """Return the message; None where the values are unknown."""
    when, against = asked.get("when", "after"), asked.get("against")
    if when not in TIMES:
        raise ValueError(f"there are no values {when}")
    excerpt = asked.get("excerpt")
    place = ValuesAsked(
        request=_number(asked, "request"),
        step=_number(asked, "step"),
        buffer=_number(asked, "buffer"),
        when=str(when),
        against=against if isinstance(against, str) else "",
        excerpt=(int(excerpt[0]), int(excerpt[1])) if isinstance(excerpt, list) and len(excerpt) == 2 else (0, 0),
    )
    is_after = when != "before"
    content = tiles.content(place.step, place.buffer, after=is_after)
    if content is None:
        return None
    before = tiles.content(place.step, place.buffer, after=False) if when == "change" else None
    reference = None
    if place.against and when != "change":
        reference = tiles.reference(place.step, place.buffer, place.against, after=is_after)
    return encode_values(place, content, before=before, reference=reference, references=tiles.references)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(asked: Mapping[str, object], name: str, default: int | None = None) -> int:
    value = asked.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, not a number")
    return value


def _sentence(text: str) -> str:
    """Return a reason with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
