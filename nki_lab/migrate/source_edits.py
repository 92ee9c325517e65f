"""A text with edits at nodes of its syntax tree: everything outside of them stays as it is, byte by byte."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

BREAK: Final = "\x1f"
"""Stands for a space in new text where a line that is too long may end."""
WIDTH: Final = 110
_INDENT: Final = re.compile(r"[ \t]*")
_LINE: Final = re.compile(r"[; \t]*(?P<said>.*?)[ \t]*(?P<end>\r?\n|\Z)")
"""The rest of a line behind a statement."""
_PRAGMA: Final = re.compile(r"# *(noqa|type:|fmt:|pylint:|pyright:|ruff:|mypy:)", re.IGNORECASE)
"""The beginning of a comment that tells tools about the statement beside it."""
_BODIES: Final = ("body", "orelse", "finalbody")

Part = tuple[int, int, str]
"""A stretch of the text from a character to another, and what stands there now."""


@dataclass(slots=True)
class _Lines:
    """New statements around one: each may have several lines, the later ones indented relative to the first."""

    before: list[str]
    after: list[str]


class SourceEdits:
    """The text of a module and its edits. New texts of nodes contain those of the nodes inside them."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.text, self.tree = text, tree
        self._starts = [0]
        for line in text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._is_ascii = text.isascii()
        self._parents: dict[int, ast.AST] = {}
        self.kept: list[ast.AST] = []  # nodes of nobody's, by whose ids parents are known
        self._texts: dict[int, str] = {}
        self._raw: dict[int, list[Part]] = {}
        self._around: dict[int, _Lines] = {}
        self._dropped: set[int] = set()
        self._dirty: set[int] = set()
        self._wrapped: dict[int, list[tuple[ast.stmt, ast.stmt, list[str]]]] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self._parents[id(child)] = node

    # -- places ------------------------------------------------------------------------------------------------------

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that a node is part of."""
        return self._parents.get(id(node))

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, the innermost first."""
        found = self.parent(node)
        while found is not None:
            yield found
            found = self.parent(found)

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node is in, or that it is."""
        found = node
        while not isinstance(found, ast.stmt):
            above = self.parent(found)
            assert above is not None
            found = above
        return found

    def offset(self, line: int, column: int) -> int:
        """Return the character of the text at a 1-based line and a UTF-8 byte column."""
        start = self._starts[line - 1]
        if self._is_ascii:
            return start + column
        row = self.text[start : self._starts[line]]
        return start + (
            column if row.isascii() else len(row.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
        )

    def start(self, node: ast.AST) -> int:
        """Return the first character of a node; decorators belong to what they decorate."""
        first = node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.decorator_list:
            first = node.decorator_list[0]
            place = self.offset(first.lineno, first.col_offset)
            return self.text.rindex("@", 0, place)
        return self.offset(first.lineno, first.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Return the character behind a node."""
        return self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def segment(self, node: ast.AST) -> str:
        """Return the old text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def indent(self, statement: ast.stmt) -> str:
        """Return the white space before the line of a statement."""
        line = self.text[self._starts[statement.lineno - 1] :]
        found = _INDENT.match(line)
        assert found is not None
        return found[0]

    # -- edits -------------------------------------------------------------------------------------------------------

    def _mark(self, node: ast.AST) -> None:
        while id(node) not in self._dirty:
            self._dirty.add(id(node))
            above = self.parent(node)
            if above is None:
                return
            node = above

    def replace(self, node: ast.AST, text: str) -> None:
        """Put a text in the place of a node."""
        if text != self.text_of(node):
            self._texts[id(node)] = text
            self._mark(node)

    def cut(self, owner: ast.AST, start: int, end: int, text: str = "") -> None:
        """Put a text in the place of characters that belong to a node and to none of its parts."""
        self._raw.setdefault(id(owner), []).append((start, end, text))
        self._mark(owner)

    def before(self, statement: ast.stmt, *lines: str) -> None:
        """Put statements in front of a statement, behind those that were put there before."""
        self._lines(statement).before.extend(lines)

    def after(self, statement: ast.stmt, *lines: str) -> None:
        """Put statements behind a statement, in front of those that were put there before."""
        self._lines(statement).after[:0] = lines

    def drop(self, statement: ast.stmt) -> None:
        """Take a statement out; its comments stay."""
        self._dropped.add(id(statement))
        self._mark(statement)

    def wrap(self, first: ast.stmt, last: ast.stmt, heads: list[str]) -> None:
        """Put the statements of a block from one to another below new headers, each one step further in."""
        above = self.parent(first)
        assert above is not None
        self._wrapped.setdefault(id(above), []).append((first, last, heads))
        self._mark(first)

    def is_replaced(self, node: ast.AST) -> bool:
        """Return whether a node as a whole has another text now."""
        return id(node) in self._texts

    def is_edited(self, node: ast.AST) -> bool:
        """Return whether the text of a node is another one now."""
        return id(node) in self._dirty

    def _lines(self, statement: ast.stmt) -> _Lines:
        self._mark(statement)
        return self._around.setdefault(id(statement), _Lines([], []))

    # -- texts -------------------------------------------------------------------------------------------------------

    def text_of(self, node: ast.AST) -> str:
        """Return the text of a node with all edits in it, without the statements around one."""
        if id(node) in self._texts:
            return self._texts[id(node)]
        if isinstance(node, ast.Module):
            return self._broken(self._spliced(node, 0, len(self.text)))
        if id(node) not in self._dirty:
            return self.segment(node)
        return self._spliced(node, self.start(node), self.end(node))

    def _broken(self, text: str) -> str:
        """Return the text with lines broken that are too long, at the arguments of new calls."""
        if BREAK not in text:
            return text
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if BREAK in line:
                found = _INDENT.match(line)
                inner = f"\n{found[0] if found else ''}{self.unit * 2}"
                whole = line.replace(BREAK, " ")
                lines[number] = whole if len(whole) <= WIDTH else line.replace(BREAK, inner)
        return "\n".join(lines)

    def _spliced(self, node: ast.AST, start: int, end: int) -> str:
        inner = [item for item in _children(node) if not isinstance(item, ast.stmt) and id(item) in self._dirty]
        parts = [
            *self._raw.get(id(node), ()),
            *((self.start(item), self.end(item), self.text_of(item)) for item in inner),
        ]
        for body in _blocks(node):
            parts += self._block(node, body)
        out, at = [], start
        for first, last, text in sorted(parts, key=lambda part: part[:2]):
            if first < at:
                continue
            out += [self.text[at:first], text]
            at = last
        return "".join([*out, self.text[at:end]])

    def _block(self, owner: ast.AST, body: list[ast.stmt]) -> list[Part]:
        """Return the parts that the statements of a block make anew, those of one line together."""
        parts: list[Part] = []
        for group in _groups(body):
            if not any(id(item) in self._dirty for item in group):
                continue
            parts.append(self._group(owner, group, alone=len(group) == len(body)))
        if all(id(item) in self._dropped for item in body) and body and not isinstance(owner, ast.Module):
            return [(self.start(body[0]), self.end(body[-1]), "pass")]
        wrapped = self._wrapped.get(id(owner), ())
        for first, last, heads in wrapped:
            if first in body:
                parts = self._wrap(parts, first, last, heads)
        return parts

    def _group(self, owner: ast.AST, group: list[ast.stmt], *, alone: bool) -> Part:
        first, last = group[0], group[-1]
        start, end = self.start(first), self.end(last)
        line = self._starts[self.text.count("\n", 0, start)]
        ahead = self.text[line:start]
        inline = bool(ahead.strip())
        indent = ahead if not inline else self.indent(first) + self.unit
        texts = [text for item in group for text in self._statements(item, indent)]
        if not texts and not inline and not alone:
            rest = _LINE.match(self.text, end)
            assert rest is not None
            kept = [text for item in group for text in self.comments(item)] + [rest["said"]]
            said = [text for text in kept if text and not _PRAGMA.match(text)]
            return (line, rest.start("end"), ahead + f"\n{ahead}".join(said)) if said else (line, rest.end(), "")
        if (inline or len(group) > 1) and "\n" not in "".join(texts) and len(texts) == len(group):
            return (start, end, "; ".join(texts) or "pass")
        joined = f"\n{indent}".join(texts) or "pass"
        if inline:
            before = len(self.text[:start].rstrip(" \t"))
            return (before, end, f"\n{indent}{joined}")
        return (start, end, joined)

    def _statements(self, item: ast.stmt, indent: str) -> list[str]:
        """Return the texts of a statement and of those put around it; their lines are indented."""
        around = self._around.get(id(item))
        own = [] if id(item) in self._dropped else [self.text_of(item)]
        if around is None:
            return own
        shifted = [[text.replace("\n", f"\n{indent}") for text in group] for group in (around.before, around.after)]
        return [*shifted[0], *own, *shifted[1]]

    def _wrap(self, parts: list[Part], first: ast.stmt, last: ast.stmt, heads: list[str]) -> list[Part]:
        """Indent what lies between two statements, edits and all."""
        start, end = self._starts[first.lineno - 1], self.end(last)
        if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            start = self._starts[self.text.count("\n", 0, self.start(first))]
        inside = [part for part in parts if start <= part[0] < end]
        out, at = [], start
        for begin, stop, text in sorted(inside):
            out += [self.text[at:begin], text]
            at = stop
        body = "".join([*out, self.text[at:end]])
        step, base = self.unit * len(heads), self.indent(first)
        lines = [f"{step}{line}" if line.strip() else line for line in body.split("\n")]
        head = "".join(f"{base}{self.unit * depth}{text}\n" for depth, text in enumerate(heads))
        return [*(part for part in parts if part not in inside), (start, max(end, at), head + "\n".join(lines))]

    @property
    def unit(self) -> str:
        """Return one step of indentation, as the text has it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and node.body[0].lineno > node.lineno:
                inner, outer = self.indent(node.body[0]), self.indent(node)
                if inner.startswith(outer) and inner != outer:
                    return inner[len(outer) :]
        return "    "

    def comments(self, node: ast.AST) -> list[str]:
        """Return the comments between the first and the last line of a node."""
        if "#" not in self.segment(node):
            return []
        reader = io.StringIO(f"({self.segment(node)}\n)").readline
        try:
            return [token.string for token in tokenize.generate_tokens(reader) if token.type == tokenize.COMMENT]
        except (tokenize.TokenError, SyntaxError):
            return []


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that have a place in the text."""
    for child in ast.iter_child_nodes(node):
        if hasattr(child, "lineno"):
            yield child
        else:
            yield from _children(child)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements that are parts of a node."""
    for name in _BODIES:
        body = getattr(node, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            yield body
    for name in ("handlers", "cases"):
        for item in getattr(node, name, ()):
            if not hasattr(item, "lineno"):
                yield from _blocks(item)


def _groups(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield the statements of a block, those on one line together."""
    group: list[ast.stmt] = []
    for item in body:
        if group and item.lineno != group[-1].end_lineno:
            yield group
            group = []
        group.append(item)
    if group:
        yield group
