"""Colours of what the command line prints on terminals.

The text is the same with and without them: they are put around parts of its lines, by the forms in which findings are
rendered. They are the eight colours that every terminal has, so that its own palette decides what they look like.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import IO, Final, Literal

Choice = Literal["auto", "always", "never"]
CHOICES: Final = ("auto", "always", "never")

_BOLD: Final = "1"
_SEVERITIES: Final[Mapping[str, str]] = {"error": "31", "warning": "33", "information": "36", "hint": "36"}
_BLUE: Final = "34"
_CYAN: Final = "36"

_HEAD: Final = re.compile(rf"((?:{'|'.join(_SEVERITIES)}): )?(NKI\d{{3}})( .*)")
_GUTTER: Final = re.compile(r"( *--> .*| *\d* \|)(.*)")
_CARETS: Final = re.compile(r"^( *)(\^+)(.*)")
_LABEL: Final = re.compile(r"( *)= (limit|help|note|more):(.*)")


def is_coloured(stream: IO[str], choice: str = "auto") -> bool:
    """Return whether a stream gets colours.

    Under "auto" NO_COLOR turns them off and FORCE_COLOR on, where they are not empty; else terminals get them, but for
    those that are dumb.
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def shown(text: str, stream: IO[str], choice: str = "auto") -> str:
    """Return findings as text for a stream: with colours where it gets them."""
    return coloured(text) if is_coloured(stream, choice) else text


def coloured(text: str) -> str:
    """Return findings as text with colours."""
    lines = []
    severity = _SEVERITIES["error"]
    for line in text.split("\n"):
        if head := _HEAD.fullmatch(line):
            before, code, message = head.groups(default="")
            severity = _SEVERITIES.get(before.removesuffix(": "), _SEVERITIES["error"])
            lines.append(f"{_in(before, severity)}{_in(code, f'{_BOLD};{severity}')}{_in(message, _BOLD)}")
        elif label := _LABEL.fullmatch(line):
            indent, name, rest = label.groups()
            lines.append(f"{indent}{_in('=', _BLUE)} {_in(f'{name}:', _CYAN)}{rest}")
        elif gutter := _GUTTER.fullmatch(line):
            place, source = gutter.groups()
            carets = _CARETS.fullmatch(source)
            source = source if carets is None else f"{carets[1]}{_in(carets[2] + carets[3], severity)}"
            lines.append(f"{_in(place, _BLUE)}{source}")
        else:
            lines.append(line)
    return "\n".join(lines)


def _in(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if text else ""
