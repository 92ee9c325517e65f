"""Reading around a mistake: the lines that keep a text from parsing are left out, and what they mention is in doubt."""

from __future__ import annotations

import ast
import keyword
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypedDict

from nki_lab.source.endings import BRACKET, NEVER_CLOSED, OPEN_TEXT, OPENERS, closing_line
from nki_lab.source.magics import UNKNOWN  # what stands under `if __builtins__:` is not judged
from nki_lab.source.module import PARSER_FAILURES
from nki_lab.source.moved_lines import moved_text
from nki_lab.source.trees import children

TRIES: Final = 24
"""Lines of one statement at module level that are left out one by one; after that the whole of it goes."""
CHARACTERS: Final = 1_500_000
STATEMENTS: Final = 500
"""After so many characters that were parsed again, or statements that were read around their mistakes, those that do
not parse go as a whole at once."""
_WIDTHS: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55)
"""Pieces that are read as one, where the first does not end by itself."""
_PIECE_LINES: Final = 400
SMALL: Final = 20
"""Lines above each line of a text from which on its tree is moved to its place, instead of read there."""

_NAME: Final = re.compile(r"(?<![\w.])[^\W\d]\w*")
_STRING: Final = re.compile(r"#.*|'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?")
_KEYWORD_ARGUMENT: Final = re.compile(r"(?<=[(,])(\s*)[^\W\d]\w*\s*=(?!=)|^(\s+)[^\W\d]\w*\s*=(?=[^=].*,\s*$)")
_STORES: Final = re.compile(
    r"^\s*((?:[^\W\d]\w*\s*,\s*)*[^\W\d]\w*)\s*(?::[^=]*)?(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)"
    r"|\bfor\s++([^\W\d](?:[\w,]++|\s++(?!in\b)){0,100}+)\s++in\b|\b(?:as|import|def|class)\s+([^\W\d]\w*)"
)
_LINES: Final = 16
"""Different lines whose names are kept: broken lines repeat each other, as the end of each function in a text does."""
_HEADER_LINE: Final = re.compile(r" on line (\d+)$")
_STARTS: Final = re.compile(r"(?!(?:else|elif|except|finally)\b)[\w@(\[{'\"~+-]")
_OPEN_END: Final = ("was never closed", OPEN_TEXT, "EOF")
_UNMATCHED: Final = re.compile(r"unmatched '(.)'")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A tree without the `unread` lines (1-based), and the failures that are not consequences of others."""

    tree: ast.Module
    failures: tuple[SyntaxError, ...]
    unread: frozenset[int]


def recovered(lines: Sequence[str], whole: SyntaxError, parse: Callable[[str], ast.Module]) -> Recovered:
    """Return the tree of `lines`, of which Python says `whole`, without the lines in the way.

    In their place stand statements under an unknown condition that mention the same names. No mistake reaches beyond
    its statement at module level, but for strings and brackets that really go on.
    """
    starts = [*_pieces(lines), len(lines)]
    body: list[ast.stmt] = []
    failures: list[SyntaxError] = []
    unread: set[int] = set()
    stretch = _Stretch()
    spent = torn = piece = 0

    def again(text: str) -> ast.Module:
        nonlocal spent
        spent += len(text)
        return parse(text)

    while piece < len(starts) - 1:
        start = starts[piece]
        # Empty lines above give a large piece its place at once; small ones are moved there.
        above = start if (starts[piece + 1] - start) * SMALL > start else 0
        wider = again if spent < CHARACTERS and torn < STATEMENTS else None
        taken, tree, failure = _longest(lines, starts, piece, "\n" * above, parse, wider)
        piece += taken
        if tree is None:
            part = ["" for _ in range(above)] + _part(lines, start, starts[piece])
            found = _around(part, failure, wider)
            torn += 1
            failures += [_moved(item, start - above) for item in found.failures]
            unread.update(line + start - above for line in found.unread)
            body += stretch.moved(found, start - above)
        else:
            move(tree.body, start - above)
            body += tree.body
            stretch = _Stretch()
    return Recovered(ast.Module(body=body, type_ignores=[]), tuple(failures or [whole]), frozenset(unread))


def seems_several(lines: Sequence[str]) -> bool:
    """Return whether lines of one statement look like several: it goes on at the start of a line."""
    return sum(1 for _ in _pieces(lines)) > 1


def goes_on(line: str) -> bool:
    """Return whether a text in quotes may go on behind the end of a line, at the start of the next."""
    return line.endswith("\\")


def _pieces(lines: Sequence[str]) -> Iterator[int]:
    """Yield the 0-based lines on which statements at module level seem to begin, decorators with what they decorate.

    Lines with a backslash alone belong to what follows, which stands as deep as the first of them that is indented.
    """
    yield 0
    decorated = indented = False
    begin = 0
    for number, line in enumerate(lines):
        if not indented and _STARTS.match(line):
            if begin and not decorated:
                yield begin
            decorated = line.startswith("@") or (decorated and goes_on(lines[number - 1]))
        if line.strip() == "\\":
            indented = indented or line[0] != "\\"
        else:
            indented = False
            begin = number + 1


def _part(lines: Sequence[str], start: int, stop: int) -> list[str]:
    """Return some lines. An empty line that ends a statement which goes on behind a backslash ends where it does among
    all of them: it is not the last one.
    """
    part = list(lines[start:stop])
    goes_on_in_last = len(part) > 1 and not part[-1].strip() and goes_on(part[-2])
    return [*part, ""] if goes_on_in_last and stop < len(lines) else part


def _longest(
    lines: Sequence[str],
    starts: list[int],
    piece: int,
    blank: str,
    parse: Callable[[str], ast.Module],
    wider: Callable[[str], ast.Module] | None,
) -> tuple[int, ast.Module | None, SyntaxError]:
    """Return the number of pieces that parse as one below `blank` lines, and their tree; one piece and no tree where
    none do.

    `wider` parses several pieces; without it the first is read alone.
    """
    first = SyntaxError("invalid syntax")

    def text_of(width: int) -> str:
        return blank + "\n".join(_part(lines, starts[piece], starts[piece + width]))

    before, width, is_bracket = 0, 1, False
    for _ in _WIDTHS:
        try:
            read = parse if width == 1 or wider is None else wider
            return width, read(text_of(width)), first
        except SyntaxError as failure:
            first = without_frames(failure) if width == 1 else first
            at = starts[piece] + (failure.lineno or 1) - 1 - len(blank)
            if not any(text in failure.msg for text in _OPEN_END) and not goes_on(lines[starts[piece + width] - 1]):
                # What was open has an end: it may be good as far as the piece that fails.
                good = bisect_right(starts, at) - 1 - piece
                if wider is not None and before < good < width:
                    with suppress(*PARSER_FAILURES):
                        return good, wider(text_of(good)), first
                # A bracket that has its end has the mistake inside of it.
                return (width, None, without_frames(failure)) if is_bracket else (1, None, first)
            closing, is_bracket = closing_line(lines, at, failure) if wider is not None else (None, False)
        except (ValueError, RecursionError, MemoryError, SystemError):
            first.msg, first.lineno = "nested too deeply for Python's parser", len(blank) + 1
            break
        before, width = width, _next_width(starts, piece, width, closing)
        if not width:
            break
        is_bracket = is_bracket and closing is not None and starts[piece + width - 1] <= closing
    return 1, None, first


def _next_width(starts: Sequence[int], piece: int, width: int, closing: int | None) -> int:
    """Return the number of pieces to read where `width` of them leave something open; 0 where it stays so.

    A text in quotes or a bracket ends at line `closing`, or nowhere for None; -1 where that is not known.
    """
    if closing is None:
        return 0
    wanted = bisect_right(starts, closing) - piece
    if wanted > width:
        return wanted
    wanted = next((item for item in _WIDTHS if item > width), 0)
    wanted = min(wanted, len(starts) - 1 - piece)
    return wanted if wanted > width and starts[piece + wanted] - starts[piece] <= _PIECE_LINES else 0


def _around(lines: Sequence[str], failure: SyntaxError, parse: Callable[[str], ast.Module] | None) -> Recovered:
    """Return the tree of one statement around its mistakes; without `parse`, of nothing."""
    attempt, first = _Attempt(list(lines), list(lines)), failure
    for _ in range(TRIES if parse is not None else 0):
        attempt.leave_out(failure)
        try:
            assert parse is not None
            tree = parse("\n".join(attempt.work))
        except SyntaxError as next_failure:
            failure = without_frames(next_failure)
        except (ValueError, RecursionError, MemoryError, SystemError):
            break
        else:
            _mention(tree, lines, attempt.unread)
            return Recovered(tree, tuple(attempt.failures), frozenset(attempt.unread))
    unread = frozenset(number + 1 for number, line in enumerate(lines) if line.strip())
    return Recovered(_unread_as_a_whole(lines, unread), (first,), unread)


def without_frames(failure: SyntaxError) -> SyntaxError:
    """Return a failure without the frames in which it came about: they hold it, and trees that nobody needs."""
    return failure.with_traceback(None)


def _moved(failure: SyntaxError, count: int) -> SyntaxError:
    """Return a failure `count` lines further down."""
    message = moved_text(failure.msg, lambda line: line + count)
    line, end = (failure.lineno or 1) + count, failure.end_lineno
    place = (failure.filename, line, failure.offset, failure.text)
    return SyntaxError(message, (*place, end + count if end is not None else line, failure.end_offset))


def move(nodes: Iterable[ast.AST], count: int) -> None:
    """Move trees down by `count` lines."""
    stack = list(nodes) if count else []
    while stack:
        node = stack.pop()
        if "lineno" in node._attributes:
            node.lineno += count  # type: ignore[attr-defined]
            node.end_lineno += count  # type: ignore[attr-defined]
        stack += children(node)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


@dataclass(slots=True)
class _Attempt:
    """The lines as far as they are mended."""

    lines: list[str]
    work: list[str]
    unread: set[int] = field(default_factory=set)
    failures: list[SyntaxError] = field(default_factory=list)
    open: Counter[str] = field(default_factory=Counter)  # brackets of left out lines, by kind: negative ones are closed

    def leave_out(self, failure: SyntaxError) -> None:
        """Replace the line that a failure is about, or one above it where that has not helped."""
        missing = _HEADER_LINE.search(failure.msg) if "expected an indented block" in failure.msg else None
        header = int(missing[1]) if missing is not None and int(missing[1]) not in self.unread else 0
        at = header or min(max(failure.lineno or 1, 1), len(self.work))
        self._report(failure, at)
        if not header and (at in self.unread or not self.work[at - 1].strip()):
            above = next((i for i in range(at - 1, 0, -1) if i not in self.unread and self.work[i - 1].strip()), 0)
            self._replace(above or at)
        elif not header and isinstance(failure, IndentationError):
            self._blank(at, alone="unindent" in failure.msg)
        else:
            self._replace(at)

    def _report(self, failure: SyntaxError, at: int) -> None:
        """Keep a failure that lines left out before do not explain."""
        if not self.failures or not (self._is_beside_unread(at) or self._is_consequence(failure, at)):
            self.failures.append(failure)

    def _is_beside_unread(self, at: int) -> bool:
        """Whether a line, or the one above it, was left out."""
        above = next((i for i in range(at - 1, 0, -1) if self.lines[i - 1].strip()), 0)
        return at in self.unread or (bool(self.unread) and above in self.unread)

    def _is_consequence(self, failure: SyntaxError, at: int) -> bool:
        """Whether a failure would not be there with the lines that were left out: Python has been beyond its line, it
        misses a bracket that those lines have, or a depth that one of them may have begun; or its line went on there.
        """
        is_above = (failure.lineno or 1) < (self.failures[-1].lineno or 1)
        if (opening := NEVER_CLOSED.match(failure.msg)) is not None:  # which is said at the end
            return any(self.open.values()) if is_above else self.open[opening[1]] < 0
        if is_above or "unindent does not match" in failure.msg or self._continues_unread(at):
            return True
        if (closing := _UNMATCHED.match(failure.msg)) is not None:
            return self.open[OPENERS[closing[1]]] > 0
        return "does not match opening" in failure.msg and any(self.open.values())

    def _continues_unread(self, at: int) -> bool:
        """Whether a line goes on with one that was left out and is no header: it is deeper, or begins with a closing
        bracket.
        """
        depth, closes = _depth(self.lines[at - 1]), self.lines[at - 1].lstrip()[:1] in OPENERS
        for number in range(at - 1, 0, -1):
            above = self.lines[number - 1].rstrip()
            if above and (_depth(above) < depth or (closes and _depth(above) == depth)):
                return number in self.unread and not above.endswith(":")
        return False

    def _replace(self, at: int) -> None:
        """Put a statement that says nothing in the place of a line; a header where lines stand below it."""
        text = self.lines[at - 1]
        indent = text[: len(text) - len(text.lstrip())]
        below = next((line for line in self.work[at:] if line.strip() and not line.lstrip().startswith("#")), "")
        above = next((self.work[i - 1] for i in range(at - 1, 0, -1) if self.work[i - 1].strip()), "")
        deeper = below.startswith(indent) and below[len(indent) : len(indent) + 1].isspace()
        if above.lstrip().startswith("@"):
            self.work[at - 1] = f"{indent}def __unread__():" + ("" if deeper else " pass")
        else:
            self.work[at - 1] = f"{indent}if {UNKNOWN}:" if deeper else f"{indent}pass"
        self._note(at)

    def _blank(self, at: int, *, alone: bool) -> None:
        """Empty a line that is indented as no line may be there, and those below it that are too.

        Lines with more indentation belong to it, unless it is `alone`: a line between two depths.
        """
        text = self.lines[at - 1]
        depth = text[: len(text) - len(text.lstrip())]
        while at <= len(self.work):
            line = self.work[at - 1]
            own = line[: len(line) - len(line.lstrip())]
            if line.strip() and (own != depth if alone else not own.startswith(depth)):
                break
            if line.strip():
                self._note(at)
            self.work[at - 1] = ""
            at += 1

    def _note(self, at: int) -> None:
        """Count a line as left out, with the brackets that it does not open and close itself."""
        if at not in self.unread:
            self.unread.add(at)
            for found in BRACKET.finditer(_STRING.sub(" ", self.lines[at - 1])):
                self.open[OPENERS.get(found[0], found[0])] += -1 if found[0] in OPENERS else 1


# -- what the lines mention ----------------------------------------------------------------------------------------


def _mention(tree: ast.Module, lines: Sequence[str], unread: set[int]) -> None:
    """Have the statements in the place of left out lines mention what those mentioned."""
    for body in _bodies(tree):
        for position, node in enumerate(body):
            if node.lineno not in unread or not isinstance(node, ast.Pass | ast.If):
                continue
            mentions = _statements(lines, unread, node)
            if isinstance(node, ast.Pass) and mentions:
                body[position] = _mentioning(node, mentions)
            elif isinstance(node, ast.If):
                node.body[:0] = mentions


def _mentioning(node: ast.Pass, mentions: list[ast.stmt]) -> ast.If:
    """Return the statement that stands in the place of `node` with `mentions`."""
    place = _place_of(node)
    return ast.If(test=ast.Name(id=UNKNOWN, ctx=_LOAD, **place), body=mentions, orelse=[], **place)


@dataclass(slots=True)
class _Stretch:
    """Statements at module level, one after the other, that could not be read: the first `If` mentions for all of them.

    It mentions each name once: a text in which every line is broken has thousands of lines, and few names.
    """

    head: ast.If | None = None
    read: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def moved(self, piece: Recovered, count: int) -> list[ast.stmt]:
        """Return the statements of the next piece, `count` lines further down; none where the head of the stretch
        mentions what they do.
        """
        body = piece.tree.body
        node = body[0] if len(body) == 1 else None
        mentions = node.body if isinstance(node, ast.If) and node.lineno in piece.unread else []
        if not isinstance(node, ast.If) or not mentions or any(item.lineno != node.lineno for item in mentions):
            self.head = None
            move(body, count)
            return body
        if self.head is None:
            self.head, self.read, self.bound = node, set(), set()
        mentions = list(filter(self._is_new, mentions))
        if self.head is node:
            move(body, count)
            return body
        move(mentions, count)
        self.head.body += mentions
        self.head.end_lineno = (node.end_lineno or node.lineno) + count
        self.head.end_col_offset = node.end_col_offset
        return []

    def _is_new(self, mention: ast.stmt) -> bool:
        """Leave the names in a statement of `_statements` that are new; return whether there are any."""
        match mention:
            case ast.Expr(value=ast.Tuple(elts=items) as names):
                new = {item.id: item for item in items if isinstance(item, ast.Name) and item.id not in self.read}
                names.elts = [*new.values()]
                self.read.update(new)
                return bool(new)
            case ast.Assign(targets=[ast.Name(id=name)]) if name not in self.bound:
                self.bound.add(name)
                return True
        return False


def _unread_as_a_whole(lines: Sequence[str], unread: Collection[int]) -> ast.Module:
    """Return the tree of a statement none of whose lines is read; it mentions what it binds and reads around itself."""
    number = next((line for line in sorted(unread) if not lines[line - 1].startswith(("@", "#"))), None)
    if number is None:
        return ast.Module(body=[], type_ignores=[])
    header = lines[number - 1]
    node = ast.Pass(lineno=number, col_offset=0, end_lineno=number, end_col_offset=len(header.encode()))
    mentions = _statements(lines[:number] if _OWN_NAMES.match(header) else lines, unread, node)
    return ast.Module(body=[_mentioning(node, mentions) if mentions else node], type_ignores=[])


_OWN_NAMES: Final = re.compile(r"(?:async\s+)?def\b|class\b")
"""Statements whose other lines bind and read names of their own."""


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements of a module."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            items = getattr(node, name, None)
            if isinstance(items, list):
                if items and isinstance(items[0], ast.stmt):
                    yield items
                stack.extend(item for item in items if isinstance(item, ast.stmt | ast.excepthandler | ast.match_case))


def _statements(lines: Sequence[str], unread: Collection[int], node: ast.stmt) -> list[ast.stmt]:
    """Return statements that bind and read the names of the left out line of `node`, and of emptied lines below it."""
    bound: list[str] = []
    read: list[str] = []
    number = node.lineno
    while number in unread and number <= len(lines) and (number == node.lineno or lines[number - 1][:1].isspace()):
        stores, loads = names_in(lines[number - 1])
        bound += stores
        read += loads
        number += 1
    place = _place_of(node)
    made: list[ast.stmt] = []
    if read:
        items: list[ast.expr] = [ast.Name(id=name, ctx=_LOAD, **place) for name in dict.fromkeys(read)]
        made.append(ast.Expr(value=ast.Tuple(elts=items, ctx=_LOAD, **place), **place))
    for name in dict.fromkeys(bound):
        target = ast.Name(id=name, ctx=_STORE, **place)
        made.append(ast.Assign(targets=[target], value=ast.Constant(value=None, **place), **place))
    return made


_LOAD: Final = ast.Load()  # the parser too has one of each for all nodes
_STORE: Final = ast.Store()


class _Place(TypedDict):
    lineno: int
    col_offset: int
    end_lineno: int | None
    end_col_offset: int | None


def _place_of(node: ast.stmt) -> _Place:
    return _Place(
        lineno=node.lineno,
        col_offset=node.col_offset,
        end_lineno=node.end_lineno,
        end_col_offset=node.end_col_offset,
    )


@lru_cache(maxsize=_LINES)
def names_in(line: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a line of broken Python seems to bind, and those it seems to read."""
    text = _STRING.sub(" ", line)
    bound: list[str] = []
    for found in _STORES.finditer(text):
        bound += _NAME.findall(next(part for part in found.groups() if part))
    read = _NAME.findall(_KEYWORD_ARGUMENT.sub(r"\1", text))
    return tuple(filter(_plain, bound)), tuple(filter(_plain, read))


def blanked(line: str) -> str:
    """Return a line with spaces in the place of its strings, comments and names of keyword arguments."""

    def spaces(found: re.Match[str]) -> str:
        return " " * len(found[0])

    return _KEYWORD_ARGUMENT.sub(spaces, _STRING.sub(spaces, line))


def _plain(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)
