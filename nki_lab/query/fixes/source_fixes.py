"""`--fix`: findings whose remedy is one exact spelling, written into the source and nothing else of it changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.extras import extra
from nki_lab.source.module import decoded

if TYPE_CHECKING:
    import libcst

FIXABLE: Final = frozenset(
    {"NKI016", "NKI109", "NKI110", "NKI114", "NKI127", "NKI304", "NKI311", "NKI601", "NKI602", "NKI603", "NKI604",
     "NKI606"}
)  # fmt: skip
"""Grids on called kernels, a bare `*`, `is` between constants, lists as defaults, aliases of range, flat indices,
memories as strings, names and keywords that go or are spelt otherwise, literals that stand for members."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A source after `count` edits, in the encoding and with the line ends that it had."""

    source: bytes
    count: int


def fixed(source: bytes, found: Sequence[Diagnostic]) -> Fixed | None:
    """Return the source with the findings mended that have one exact remedy; None where that is none of them.

    A finding is mended where its place holds exactly what the remedy replaces: a literal, not a name that stands for
    it. Raises NKI022 without libcst.
    """
    wanted = [item for item in found if item.code in FIXABLE and item.span is not None]
    if not wanted:
        return None
    with extra("fix", "--fix needs"):
        import libcst

        from nki_lab.query.fixes.rewriter import Rewriter
    try:
        text, encoding = decoded(source)
        module = libcst.parse_module(text)
    except (SyntaxError, UnicodeError, LookupError, RecursionError, libcst.ParserSyntaxError):
        return None
    if module.code != text:  # what cannot be written back as it was is left alone
        return None
    rewriter = Rewriter(wanted, modules_of(module))
    rewritten = libcst.MetadataWrapper(module, unsafe_skip_copy=True).visit(rewriter)
    return Fixed(rewritten.code.encode(encoding), rewriter.count) if rewriter.count else None


def modules_of(module: libcst.Module) -> frozenset[str]:
    """Return the names that a source binds to NKI: `nl` of `import nki.language as nl`."""
    head = r"^\s*(?:import\s+(?:nki|neuronxcc)\b|from\s+(?:nki|neuronxcc)\b)"
    found: set[str] = set()
    for line in re.findall(head + r"[^\n#]*", module.code, re.MULTILINE):
        names = line.partition("import")[2].strip(" ()")
        for part in names.split(","):
            dotted, _, alias = part.strip().partition(" as ")
            found.add(alias.strip() or dotted.strip().partition(".")[0])
    return frozenset(found - {""})


def new_error(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> Diagnostic | None:
    """Return the first error that was not there before; None where there is none."""
    known = {(item.code, item.message) for item in before if item.severity == "error"}
    return next((item for item in after if item.severity == "error" and (item.code, item.message) not in known), None)
