"""Others' texts as they can be shown: characters that steer a terminal or turn the order of a line are written out.

A file's name or a line of source may contain anything: a newline in a name would make a second finding of its rest, and
a mark of writing direction would show one text and mean another.
"""

from __future__ import annotations

import html
import json
import re
import reprlib
from typing import Any, Final

_STEERING: Final = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters but for tabs and newlines
    "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # marks of writing direction
    "\\u2028\\u2029"  # ends of lines and paragraphs
    "\\ud800-\\udfff"  # halves of surrogate pairs, which no output can encode
    "\\ufeff\\ufff9-\\ufffb"
    "\\U000e0000-\\U000e007f"  # tags, which nothing shows
)
_IN_TEXT: Final = re.compile(f"[{_STEERING}]")
_IN_LINE: Final = re.compile(f"[{_STEERING}\\n]")


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def printable(text: str) -> str:
    """Return a text with the characters that must not reach an output written as Python's strings write them."""
    return text if text.isprintable() else _IN_TEXT.sub(_written_out, text)


def on_one_line(text: str) -> str:
    """Return a text the same way, newlines written out too: a file's name, a line of source."""
    return text if text.isprintable() else _IN_LINE.sub(_written_out, text)


def shown(value: object) -> str:
    """Return a value as a message shows it: Python's text for it, of which only the first line.

    Tensors of a run and arrays go on with their elements. Of containers with many parts the text is an excerpt: lists
    inside of each other can have a short source and a text without end.
    """
    return (repr if _has_few_parts(value) else reprlib.repr)(value).split("\n", 1)[0]


_MOST_PARTS: Final = 1000
_CONTAINERS: Final = frozenset((list, tuple, set, frozenset, dict))


def _has_few_parts(value: object) -> bool:
    """Return whether a value has few parts, those of its parts included, each as often as it is there."""
    count, parts = 1, [value]
    while parts and count <= _MOST_PARTS:
        item: Any = parts.pop()
        if type(item) in _CONTAINERS:
            count += len(item)
            if count <= _MOST_PARTS:
                parts += [*item, *item.values()] if type(item) is dict else item
    return count <= _MOST_PARTS


def as_json(data: object) -> str:
    """Return data as JSON in ASCII, without control characters."""
    return json.dumps(data, indent=1).replace("\x7f", "\\u007f")


def escape(text: str) -> str:
    """Return a printable text as HTML."""
    return html.escape(printable(text))
