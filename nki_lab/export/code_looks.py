"""The looks of names in code cells, by the modifiers of semantic tokens.

Hue says which engine a call runs on, as everywhere. Memories have no hue: weight, shade and a line under the name tell
them apart, also where colours are forced. Pages have this as `labextension/src/_generated/tokens.css`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from nki_lab.export.colours import COLOURS, Colour
from nki_lab.query.token_kinds import ENGINE_MODIFIERS

GROUND: Final = Colour("#f5f5f5", "#212121")
"""What code stands on: JupyterLab's cells, of its grounds those on which text is hardest to read."""
CONTRAST: Final = 4.5
"""The least contrast of text with its ground (WCAG 2.2, 1.4.3)."""
STEP: Final = 0.02
"""The part of black or white by which a colour is tried next."""


class Look(NamedTuple):
    """How a name is written: its colour, where it has one of its own, and further properties of CSS."""

    colour: Colour | None = None
    style: str = ""


def readable(colour: Colour) -> Colour:
    """Return a colour as text on the ground of code: if it must be, darker in the light theme, lighter in the dark."""
    return Colour(_towards(colour.light, "#000000", GROUND.light), _towards(colour.dark, "#ffffff", GROUND.dark))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, `#rrggbb`, between 1 and 21."""
    low, high = sorted(_luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def _towards(colour: str, end: str, ground: str) -> str:
    part = 0.0
    while contrast(found := _mixed(colour, end, part), ground) < CONTRAST:
        part += STEP
    return found


def _mixed(colour: str, end: str, part: float) -> str:
    pairs = zip(_channels(colour), _channels(end), strict=True)
    return "#" + "".join(f"{round(one + (other - one) * part):02x}" for one, other in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _luminance(colour: str) -> float:
    parts = [value / 255 for value in _channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


LOOKS: Final = MappingProxyType(
    {
        # NKI's own names have no hue, so that the hue of an engine is seen among them.
        "defaultLibrary": Look(readable(COLOURS["ink"])),
        "hbm": Look(readable(COLOURS["ink3"])),
        "sbuf": Look(style="font-weight: 600"),
        "psum": Look(style="font-weight: 600; text-decoration: underline dotted 1px; text-underline-offset: 3px"),
        "compileTime": Look(style="font-style: italic"),
        "register": Look(style="text-decoration: underline dashed 1px; text-underline-offset: 3px"),
        **{modifier: Look(readable(COLOURS[kind])) for kind, modifier in ENGINE_MODIFIERS.items()},
    }
)
"""By modifier, later ones before earlier ones; whatever has none of these looks as the page has it."""
