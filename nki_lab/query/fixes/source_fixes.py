"""`--fix`: findings whose remedy is one exact spelling, written into the source and nothing else of it changed."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.extras import extra
from nki_lab.source.module import NEWLINE, decoded

if TYPE_CHECKING:
    from libcst import Module

FIXABLE: Final = frozenset(
    {"NKI016", "NKI109", "NKI110", "NKI114", "NKI127", "NKI304", "NKI311", "NKI601", "NKI602", "NKI603", "NKI604",
     "NKI606"}
)  # fmt: skip
"""Grids on called kernels, a bare `*`, `is` between constants, lists as defaults, aliases of range, flat indices,
memories as strings, names and keywords that go or are spelt otherwise, literals that stand for members."""

_IMPORT: Final = re.compile(r"(?:^|;)[ \t]*(?:import|from)\s+((?:nki|neuronxcc)\b[^\n#;]*)", re.MULTILINE)
_FROM: Final = re.compile(r"[\w.]+\s+import\b")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A source after `count` edits, in the encoding and with the line ends that it had."""

    source: bytes
    count: int


@dataclass(frozen=True, slots=True)
class FixedTexts:
    """The texts of a file, or of the cells of a notebook, after `count` edits."""

    texts: tuple[str, ...]
    count: int


def fixed(source: bytes, found: Sequence[Diagnostic]) -> Fixed | None:
    """Return the source with the findings mended that have one exact remedy; None where that is none of them.

    A finding is mended where its place holds exactly what the remedy replaces: a literal, not a name that stands for
    it. Raises NKI022 without libcst.
    """
    read = readable(source)
    done = None if read is None else fixed_texts((read[0],), found)
    return None if read is None or done is None else Fixed(done.texts[0].encode(read[1]), done.count)


def readable(source: bytes) -> tuple[str, str] | None:
    """Return the text of a source and its encoding; None where that would not be the same source again."""
    try:
        text, encoding = decoded(source)
        return (text, encoding) if text.encode(encoding) == source else None
    except (SyntaxError, UnicodeError, LookupError):
        return None


def fixed_texts(texts: Sequence[str], found: Sequence[Diagnostic]) -> FixedTexts | None:
    """Return texts that stand one below the other with findings mended, as `fixed` does for one source."""
    wanted = [item for item in found if item.code in FIXABLE and item.span is not None]
    if not wanted:
        return None
    whole, above, count, after = "\n".join(texts), 0, 0, list(texts)
    for number, text in enumerate(texts):
        lines = len(NEWLINE.split(text))
        here = [moved(item, -above) for item in wanted if above < item.line <= above + lines]
        above += lines
        done = fixed_part(text, here, whole) if here else None
        if done is not None:
            after[number], count = done[0], count + done[1]
    return FixedTexts(tuple(after), count) if count else None


def fixed_part(text: str, found: Sequence[Diagnostic], whole: str) -> tuple[str, int] | None:
    """Return a text, which is a part of the `whole`, with findings mended, and by how many edits; None for none."""
    plain, feeds = _plain(text)
    module = _tree_or_obstacle(plain)
    if isinstance(module, str):
        return None
    import libcst

    from nki_lab.query.fixes.rewriter import Rewriter

    whole = _plain(whole)[0]
    rewriter = Rewriter([_without_feeds(item, feeds) for item in found], modules_of(whole), whole)
    rewritten = libcst.MetadataWrapper(module, unsafe_skip_copy=True).visit(rewriter)
    if not rewriter.count:
        return None
    code = _with_feeds(rewritten.code, plain, feeds) if any(feeds) else rewritten.code
    return code.replace("\n", "\r") if _has_old_ends(text) else code, rewriter.count


def obstacle(source: bytes) -> str:
    """Return why nothing of a source can be mended, whatever is found in it; empty where something can."""
    read = readable(source)
    if read is None:
        return "its text in its encoding is not the same file again"
    module = _tree_or_obstacle(_plain(read[0])[0])
    return module if isinstance(module, str) else ""


def _tree_or_obstacle(text: str) -> Module | str:
    """Return the tree of a text that keeps all of it, or why there is none."""
    with extra("fix", "--fix needs"):
        import libcst
    try:
        module = libcst.parse_module(text)
    except RecursionError:
        return "it is nested too deeply"
    except libcst.ParserSyntaxError as error:
        return f"it has a syntax error on line {error.raw_line}"
    return module if module.code == text else "its line ends or spaces would change elsewhere"


def _plain(text: str) -> tuple[str, list[int]]:
    """Return a text as libcst keeps it, and how many form feeds are taken from the beginning of each line.

    Lines that all end with a carriage return end with a newline character instead.
    """
    lines = (text.replace("\r", "\n") if _has_old_ends(text) else text).split("\n")
    bare = [line.lstrip("\f") for line in lines]
    return "\n".join(bare), [len(line) - len(rest) for line, rest in zip(lines, bare, strict=True)]


def _with_feeds(code: str, plain: str, feeds: Sequence[int]) -> str:
    """Return fixed code with the form feeds again that its lines had."""
    before, after = plain.split("\n"), code.split("\n")
    for _, first, last, place, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for number, count in zip(range(place, end), feeds[first:last], strict=False):
            after[number] = "\f" * count + after[number]
    return "\n".join(after)


def _has_old_ends(text: str) -> bool:
    return "\r" in text and "\n" not in text


def _without_feeds(item: Diagnostic, feeds: Sequence[int]) -> Diagnostic:
    """Return a finding at its place in the text without form feeds."""
    span = item.span
    if span is None or span.end_line > len(feeds) or not (feeds[span.line - 1] or feeds[span.end_line - 1]):
        return item
    column, end = span.column - feeds[span.line - 1], span.end_column - feeds[span.end_line - 1]
    return replace(item, span=replace(span, column=column, end_column=end))


def has_rewriter() -> bool:
    """Return whether libcst is installed, which the extra `fix` brings."""
    return importlib.util.find_spec("libcst") is not None


def moved(item: Diagnostic, lines: int) -> Diagnostic:
    """Return a finding so many lines further down."""
    span = item.span
    if span is None or not lines:
        return item
    place = Span(span.file, span.line + lines, span.column, span.end_line + lines, span.end_column)
    return replace(item, span=place)


def modules_of(text: str) -> frozenset[str]:
    """Return the names that a source binds to NKI: `nl` of `import nki.language as nl`."""
    found: set[str] = set()
    for line in _IMPORT.findall(text):
        inner = _FROM.match(line)
        for part in (line[inner.end() :] if inner else line).strip(" ()\r").split(","):
            dotted, _, alias = part.strip().partition(" as ")
            name = dotted.strip().partition(".")[0]
            if inner or name in ("nki", "neuronxcc"):
                found.add(alias.strip() or name)
    return frozenset(found - {""})


def new_error(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> Diagnostic | None:
    """Return the first error that was not there before; None where there is none."""
    known = {(item.code, item.message) for item in before if item.severity == "error"}
    return next((item for item in after if item.severity == "error" and (item.code, item.message) not in known), None)
