"""The place that somebody types at, read from the characters around it: the text there seldom parses.

Strings and comments are blanked, then brackets are followed from the statement's beginning. A bracket that is still
open where a line begins like a new statement was left unfinished, and encloses nothing behind it.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

_TEXT: Final = re.compile(
    r"#[^\n]*"
    r"|'''(?:[^'\\]|\\.|'(?!''))*(?:'''|\\?\Z)"
    r'|"""(?:[^"\\]|\\.|"(?!""))*(?:"""|\\?\Z)'
    r"|'(?:\\.|[^'\\\n])*'?"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|\\\n",
    re.DOTALL,
)
"""Comments, strings and joined lines; what is not closed goes on to the end of the line or of the text."""
_MARK: Final = re.compile(r"[()\[\]{}\n;]")
_OUTER: Final = ("\ndef ", "\nclass ", "\nasync ", "\nimport ", "\nfrom ", "\n@")
"""Beginnings of lines that stand in no bracket."""
_BEGINS: Final = re.compile(
    r"(?:(?:def|class|return|import|from|while|with|try|except|finally|raise|assert|del|pass|break|continue|global"
    r"|nonlocal|elif)\b|@)|(?:for|if|else|async)\b.*:$"
)
"""Lines, stripped, that begin a statement whatever is open above them."""
_WORD_BEFORE: Final = re.compile(r"[^\W\d]\w*\Z")
_WORD_AFTER: Final = re.compile(r"\w*")
_NAME_GIVEN: Final = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)")
_CLOSES: Final = {")": "(", "]": "[", "}": "{"}
_STRING: Final = '"'
"""Stands for each character of a string in blanked code."""
_LINES_AFTER: Final = 120
"""Lines below the cursor that its statement may reach."""
_CALLS: Final = 12
"""Open brackets whose calls are looked at."""


class Bracket(NamedTuple):
    """An open bracket, its offset, and the indentation of its line."""

    kind: str
    at: int
    indent: int


class Argument(NamedTuple):
    """An argument of a call: the keyword, empty for a positional one, and the rest of it, with blanked strings."""

    keyword: str
    value: str


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call whose closing bracket is behind the cursor, or nowhere.

    `before` are the arguments before the one at the cursor, `current` is that one up to the cursor, and `after` are the
    keywords of those behind it.
    """

    function: str
    before: tuple[Argument, ...]
    current: Argument
    after: frozenset[str]

    @property
    def given(self) -> frozenset[str]:
        """Return the keywords of the other arguments."""
        return frozenset(item.keyword for item in self.before if item.keyword) | self.after


@dataclass(frozen=True, slots=True)
class Cursor:
    """The words, statement and calls around the cursor.

    `first` and `last` are the 0-based lines of its statement in the text, `statement` is that up to the cursor, with
    strings and comments blanked. `word` is the part of a name before the cursor and `rest` the part behind it, both may
    be empty; `follows` is the next character but spaces. `owner` is the expression before the dot of an attribute, None
    where the word stands by itself. `calls` are the open calls around, the innermost first, and `in_call` tells whether
    the cursor stands in the brackets of that one, and not of a list or tuple inside.
    """

    first: int
    last: int
    statement: str
    word: str
    rest: str
    follows: str
    owner: str | None
    calls: tuple[OpenCall, ...]
    in_call: bool


@lru_cache(maxsize=4)
def cursor_at(text: str, offset: int) -> Cursor | None:
    """Return what stands around a place of a text; None in strings and comments, and behind numbers."""
    line_start = text.rfind("\n", 0, offset) + 1
    above = _blanked(text[:line_start])
    line = _blanked_line(text[line_start:offset]) if above is not None else _blanked_line(text[:offset])
    if line is None:
        return None
    code = (above or "") + line
    word = _word_before(code)
    if word is None:
        return None
    rest = _WORD_AFTER.match(text, offset)
    assert rest is not None
    tail = _blanked_line(text[rest.end() : _some_lines(text, rest.end())], open_end=True)
    assert tail is not None
    code_after = code + rest[0] + tail
    start, brackets = _open_brackets(code, code_after)
    end = _statement_end(code_after, offset, brackets)
    at = offset - len(word)
    owner = None
    before = code[:at].rstrip() if brackets else code[:at].rstrip(" \t")
    if before.endswith(".") and not before.endswith(".."):
        begin = _chain_start(code, len(before) - 1)
        owner = text[begin : len(before) - 1].strip()
    around = (_call(text, code_after, item.at, offset) for item in reversed(brackets[-_CALLS:]))
    calls = [call for call in around if call is not None]
    return Cursor(
        first=text.count("\n", 0, start),
        last=text.count("\n", 0, end),
        statement=code[start:],
        word=word,
        rest=rest[0],
        follows=tail.lstrip(" \t")[:1],
        owner=owner,
        calls=tuple(calls),
        in_call=bool(calls and brackets) and _function_before(code, brackets[-1].at) is not None,
    )


def expression(text: str) -> ast.expr | None:
    """Return the tree of an expression; None where there is none."""
    try:
        return ast.parse(f"(\n{text}\n)", mode="eval").body if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=4)
def _blanked(text: str) -> str | None:
    """Return whole lines without what their strings and comments say, as long as they were.

    None where a string is open at their end. While somebody types in a line, those above stay the same.
    """
    return _blanked_line(text)


def _blanked_line(text: str, *, open_end: bool = False) -> str | None:
    """Return a text without what its strings and comments say; None where one is open at its end and must not be."""
    parts = []
    at = 0
    for found in _TEXT.finditer(text):
        start, token = found.start(), found[0]
        parts.append(text[at:start])
        at = found.end()
        if token[0] in "#\\":
            parts.append(" " * len(token))
        else:
            parts.append(_STRING * len(token))
        if at == len(text) and not open_end and token[0] != "\\" and not _is_closed(token):
            return None
    parts.append(text[at:])
    return "".join(parts)


def _is_closed(token: str) -> bool:
    quote = token[:3] if token[:3] in ("'''", '"""') else token[:1]
    if quote == "#" or len(token) < 2 * len(quote) or not token.endswith(quote):
        return False
    inner = token[len(quote) : -len(quote)]
    return (len(inner) - len(inner.rstrip("\\"))) % 2 == 0


def _some_lines(text: str, offset: int) -> int:
    """Return the end of the last line below an offset that is looked at."""
    for _ in range(_LINES_AFTER):
        offset = text.find("\n", offset) + 1
        if not offset:
            return len(text)
    return offset


def _word_before(code: str) -> str | None:
    """Return the part of a name that ends the code; None where that is a number."""
    end = len(code)
    while end and (code[end - 1].isalnum() or code[end - 1] == "_"):
        end -= 1
    word = code[end:]
    return None if word and not _WORD_BEFORE.match(word) else word


# -- statements and brackets -----------------------------------------------------------------------------------------


def _open_brackets(code: str, whole: str) -> tuple[int, list[Bracket]]:
    """Return where the statement at the end of `code` begins, and the brackets that are open there; `whole` goes on."""
    at = code.rfind("\n")  # the end of the lines above: what is open there is the same while a line is typed
    if at < 0 or code.startswith(_OUTER, at):
        return _followed(code, whole, at + 1, at + 1, [])
    start, above = _open_above(code[:at])
    return _followed(code, whole, at, start, list(above))


@lru_cache(maxsize=4)
def _open_above(code: str) -> tuple[int, tuple[Bracket, ...]]:
    """Return where the statement begins that the last line of `code` is in, and the brackets open at its end."""
    start = max(code.rfind(text) for text in _OUTER) + 1
    start, brackets = _followed(code, code, start, start, [], is_typed=False)
    return start, tuple(brackets)


def _followed(
    code: str, whole: str, at: int, start: int, brackets: list[Bracket], *, is_typed: bool = True
) -> tuple[int, list[Bracket]]:
    """Follow the brackets from an offset on, where `brackets` of a statement are open; the last line may be typed."""
    line_start = code.rfind("\n", 0, at) + 1
    for found in _MARK.finditer(code, at):
        mark, at = found[0], found.start()
        if mark == "\n":
            line_start = at + 1
            last = is_typed and code.find("\n", line_start) < 0
            if _begins_statement(whole, line_start, brackets, last=last):
                brackets.clear()
                start = line_start
        elif mark == ";":
            start = start if brackets else at + 1
        elif mark in _CLOSES:
            _close(brackets, mark)
        else:
            brackets.append(Bracket(mark, at, _indent(code, line_start)))
    return start, brackets


def _close(brackets: list[Bracket], mark: str) -> None:
    for i in range(len(brackets) - 1, -1, -1):
        if brackets[i].kind == _CLOSES[mark]:
            del brackets[i:]
            return


def _indent(code: str, line_start: int) -> int:
    end = line_start
    while end < len(code) and code[end] in " \t\x0c":
        end += 1
    return end - line_start


def _begins_statement(code: str, line_start: int, brackets: Sequence[Bracket], *, last: bool) -> bool:
    """Return whether a line begins a statement; on the `last` one, which is being typed, a name alone does not."""
    end = code.find("\n", line_start)
    line = code[line_start : end if end >= 0 else len(code)]
    text = line.strip()
    if not brackets:
        return bool(text) or last
    if not text:
        return False
    if _BEGINS.match(text):
        return True
    if _indent(code, line_start) > brackets[0].indent or text[0] in ")]}":
        return False
    above = code[:line_start].rstrip()[-1:]
    return not (last and text.isidentifier() and above in "([{,=")


def _statement_end(code: str, offset: int, brackets: Sequence[Bracket]) -> int:
    """Return an offset on the last line of the statement at the cursor."""
    still = list(brackets)
    for found in _MARK.finditer(code, offset):
        mark, at = found[0], found.start()
        if mark == "\n":
            if not still or _begins_statement(code, at + 1, still, last=False):
                return at
        elif mark in _CLOSES:
            _close(still, mark)
        elif mark != ";":
            still.append(Bracket(mark, at, still[0].indent if still else 0))
    return len(code)


# -- expressions -----------------------------------------------------------------------------------------------------


def _chain_start(code: str, end: int) -> int:
    """Return where the names, attributes, subscripts and calls begin that end at an offset."""
    at = end
    while True:
        at = _skip_spaces(code, at)
        if at and code[at - 1] in _CLOSES:
            at = _opening(code, at - 1)
            before = code[_skip_spaces(code, at) - 1 : _skip_spaces(code, at)] if at else ""
            if before.isalnum() or before in ("_", ")", "]"):
                word = _word_before(code[: _skip_spaces(code, at)])
                if word is None or not keyword.iskeyword(word):
                    at = _skip_spaces(code, at)
                    continue
            return at
        start = at
        while start and (code[start - 1].isalnum() or code[start - 1] == "_"):
            start -= 1
        if start == at:
            return at
        ahead = _skip_spaces(code, start)
        if ahead and code[ahead - 1] == "." and code[ahead - 2 : ahead] != "..":
            at = ahead - 1
            continue
        return start


def _skip_spaces(code: str, at: int) -> int:
    while at and code[at - 1] in " \t":
        at -= 1
    return at


def _opening(code: str, close: int) -> int:
    """Return the offset of the bracket that the one at `close` closes; the beginning where there is none."""
    depth = 0
    for at in range(close, max(-1, close - 20_000), -1):
        if code[at] in ")]}":
            depth += 1
        elif code[at] in "([{":
            depth -= 1
            if not depth:
                return at
    return 0


def _function_before(code: str, at: int) -> int | None:
    """Return where the function begins that the bracket at an offset calls; None where it calls nothing."""
    end = _skip_spaces(code, at)
    if code[at] != "(" or not end or not (code[end - 1].isalnum() or code[end - 1] in "_)]"):
        return None
    begin = _chain_start(code, end)
    name = code[begin:end]
    line = code[code.rfind("\n", 0, begin) + 1 : begin].split()
    return None if not name or keyword.iskeyword(name) or line[-1:] in (["def"], ["class"]) else begin


def _call(text: str, code: str, at: int, offset: int) -> OpenCall | None:
    """Return the call whose bracket at an offset is open at the cursor; None where it is no call's."""
    begin = _function_before(code, at)
    if begin is None:
        return None
    parts = list(_parts(code, at + 1))
    before = [(start, end) for start, end in parts if end < offset]
    start = next((start for start, end in parts if start <= offset <= end), offset)
    after = (_argument(code[i:j]) for i, j in parts if i > offset)
    return OpenCall(
        text[begin:at].strip(),
        tuple(_argument(code[i:j]) for i, j in before),
        _argument(code[start:offset]),
        frozenset(item.keyword for item in after if item.keyword),
    )


def _parts(code: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches between the commas of a bracket that opens before an offset, up to its end."""
    depth, start = 0, at
    indent = _indent(code, code.rfind("\n", 0, at) + 1)
    for found in re.compile(r"[()\[\]{},\n]").finditer(code, at):
        mark, place = found[0], found.start()
        if mark == "," and not depth:
            yield start, place
            start = place + 1
        elif mark in "([{":
            depth += 1
        elif mark in _CLOSES:
            depth -= 1
            if depth < 0:
                yield start, place
                return
        elif mark == "\n" and _begins_statement(code, place + 1, [Bracket("(", at, indent)], last=False):
            yield start, place
            return
    yield start, len(code)


def _argument(code: str) -> Argument:
    named = _NAME_GIVEN.match(code)
    return Argument("", code.strip()) if named is None else Argument(named[1], code[named.end() :].strip())
