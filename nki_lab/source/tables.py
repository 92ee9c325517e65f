"""Tables in a text, which Python's parser need not read: it takes a microsecond and 200 bytes for each number.

The items of a long table of constants, but for its first two and last ones, are read as JSON, which takes a tenth of
that. JSON's numbers are a part of Python's, and whatever JSON refuses is left to the parser.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from nki_lab.source.trees import without_constants

LONG: Final = 1 << 16
"""Characters of a table from which on it is taken out of the text: tables below that take Python some 20 ms."""

# Constants of all kinds, up to a bracket: possessive, so that texts without tables cost one look at each character.
_FLAT: Final = re.compile(rf"[\[({{]([\w\-+.,:/ \t\n'\"]{{{LONG},}}+)", re.ASCII)
_ROWS: Final = re.compile(r"[\[(]\s*((?:[\[(][\w\-+., \t\n]++[\])]\s*,\s*){64,}+)", re.ASCII)
_ROW_ENDS: Final = re.compile(r"[\])]\s*,")
_DIGITS: Final = 150
"""Half the digits from which on Python, or what evaluates it, may refuse a number."""


class Table(ast.Constant):
    """Stands in a display for items that the parser has not read: starred, or in a dictionary as the value of `**`.

    `items()` gives them. To readers that do not know of it, it is an empty sequence of bytes.
    """

    items: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _Hole:
    """A part of a text, from `start` to `end`, of the display at `bracket`: the parser does not read it."""

    bracket: int
    start: int
    end: int
    items: Callable[[], Any]
    pairs: bool


def parse(text: str, read: Callable[[str], ast.Module]) -> ast.Module:
    """Return the tree of a text, of which `read` parses all but long tables; raises what `read` does."""
    holes = [] if len(text) < LONG else sorted(_holes(text), key=lambda hole: hole.start)
    if holes:
        pieces, last = [], 0
        for hole in holes:
            pieces += [text[last : hole.start], _blank(text[hole.start : hole.end])]
            last = hole.end
        try:
            tree = read("".join((*pieces, text[last:])))
        except SyntaxError:  # its words may be about what was taken out
            return read(text)
        if _fill(tree, text, holes):
            return tree
    return read(text)


def _holes(text: str) -> Iterator[_Hole]:
    for find, ends in ((_FLAT, None), (_ROWS, _ROW_ENDS)):
        for found in find.finditer(text):
            start, end = found.span(1)
            if end - start < LONG or _has_huge(text, start, end):
                continue
            start = _after_two(text, start, end, ends)
            end = text.rfind(",", start, end) + 1 if start else 0
            if end <= start:
                continue
            inner = text[start : end - 1]
            pairs = text[found.start()] == "{" and ":" in inner
            items = _items(inner, pairs=pairs)
            if items is not None:
                yield _Hole(found.start(), start, end, items, pairs)


def _has_huge(text: str, start: int, end: int) -> bool:
    """Return whether a number may be huge: of twice as many digits in a row, some piece has no other characters."""
    return any(text[at : at + _DIGITS].isdigit() for at in range(start, end, _DIGITS))


def _after_two(text: str, start: int, end: int, ends: re.Pattern[str] | None) -> int:
    """Return where the third item begins, 0 for nowhere: of one item left, a tuple would be none."""
    for _ in range(2):
        if ends is None:
            start = text.find(",", start, end) + 1
        else:
            found = ends.search(text, start, end)
            start = found.end() if found else 0
        if not start:
            break
    return start


def _items(text: str, *, pairs: bool) -> Callable[[], Any] | None:
    """Return what gives the items in a text, without a comma at its end; None for other texts than JSON can stand for.

    Of what may be changed, each call gives items of its own.
    """
    if "'" in text:
        if '"' in text:
            return None
        text = text.replace("'", '"')
    if pairs:
        return _pairs(text)
    in_tuples = "(" in text
    if in_tuples:
        if "[" in text:
            return None
        text = text.replace("(", "[").replace(")", "]")
    items = _loaded(f"[{text}]")
    if not isinstance(items, list):
        return None
    kinds = set(map(type, items))
    if kinds <= _SCALARS:
        return lambda: items
    if kinds != {list} or not all(set(map(type, row)) <= _SCALARS for row in items):
        return None
    if not in_tuples:
        return lambda: [row.copy() for row in items]
    if min(map(len, items)) < 2:  # (1) is no tuple
        return None
    rows = list(map(tuple, items))
    return lambda: rows


_SCALARS: Final = frozenset((int, float, str))


def _pairs(text: str) -> Callable[[], Any] | None:
    if '"' in text:
        made = _loaded(f"{{{text}}}")
    else:  # keys of JSON are texts
        if not all(part.count(":") == 1 for part in text.split(",")):
            return None
        flat = _loaded(f"[{text.replace(':', ',')}]")
        made = dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else None
    if not isinstance(made, dict) or not {*map(type, made), *map(type, made.values())} <= _SCALARS:
        return None
    return lambda: made


def _loaded(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is a name in Python")


def _blank(text: str) -> str:
    """Return as many lines, the last one as long: what follows stays in its place."""
    return "\n" * text.count("\n") + " " * (len(text) - 1 - text.rfind("\n"))


def _fill(tree: ast.Module, text: str, holes: list[_Hole]) -> bool:
    """Put the tables into the displays of a tree; return whether each hole is in one: it may be in a text."""
    places = dict(_places(text, holes))
    for node in without_constants([tree]):
        if not isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            continue
        hole = places.pop((node.lineno, node.col_offset), None)
        if hole is not None and not _put(node, hole):
            return False
    return not places


def _places(text: str, holes: list[_Hole]) -> Iterator[tuple[tuple[int, int], _Hole]]:
    """Yield the line and column of each hole's bracket, as trees have them."""
    line, last = 1, 0
    for hole in holes:
        line += text.count("\n", last, hole.bracket)
        last = hole.bracket
        begin = text.rfind("\n", 0, last) + 1
        yield (line, len(text[begin:last].encode(errors="surrogatepass"))), hole


def _put(node: ast.List | ast.Tuple | ast.Set | ast.Dict, hole: _Hole) -> bool:
    """Put a table behind the first two items of a display; return whether it is one of that kind."""
    before = node.values if isinstance(node, ast.Dict) else node.elts
    if len(before) < 2 or isinstance(node, ast.Dict) != hole.pairs:
        return False
    table = ast.copy_location(Table(value=b""), before[1])
    table.items = hole.items
    if isinstance(node, ast.Dict):
        node.keys.insert(2, None)
        node.values.insert(2, table)
    else:
        node.elts.insert(2, ast.copy_location(ast.Starred(value=table, ctx=ast.Load()), table))
    return True
