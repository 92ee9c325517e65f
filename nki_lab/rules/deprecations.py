"""NKI127, NKI601 and NKI604: names and keywords that a release of NKI deprecates and that still work."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import last_name

RANGES: Final = frozenset({"affine_range", "sequential_range", "static_range"})
INSTEAD_OF_RANGES: Final = "write range"

SIZES: Final[Mapping[str, str]] = {
    "psum_fmax": "psum_bank_fmax",
    "total_available_sbuf_size": "sbuf_fmax_bytes",
}
"""NKI API, `nki.language.tile_size`: the same number under a name that says what it counts."""

KEYWORDS: Final[Mapping[str | None, str]] = {
    "platform_target": "set NEURON_PLATFORM_TARGET_OVERRIDE",
    "mode": "drop it: the arguments tell which framework calls",
}
"""NKI migration guide, 0.3: keyword of `nki.jit` -> what to do instead."""


@syntax_rule("NKI127")
def check_ranges(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each call of an alias of Python's `range`."""
    for node in facts.find(ast.Call):
        yield from deprecated_range(facts, node)


def deprecated_range(facts: SyntaxFacts, node: ast.Call) -> Findings:
    """Yield the finding about a call of an alias of Python's `range`."""
    name = last_name(node.func)
    if name in RANGES and facts.dotted(node.func) == f"nki.language.{name}":
        yield facts.report(
            "NKI127",
            node.func,
            f"nl.{name} is an alias of range",
            limit="NKI 0.6 deprecates it; its loops are unrolled like all others",
            use=INSTEAD_OF_RANGES,
        )


@syntax_rule("NKI601")
def check_sizes(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each mention of a deprecated name of `nl.tile_size`."""
    for node in facts.find(ast.Attribute):
        yield from deprecated_size(facts, node)


def deprecated_size(facts: SyntaxFacts, node: ast.Attribute) -> Findings:
    """Yield the finding about a deprecated name of `nl.tile_size`."""
    if node.attr in SIZES and facts.dotted(node) == f"nki.language.tile_size.{node.attr}":
        yield facts.report(
            "NKI601",
            node,
            f"nl.tile_size.{node.attr} is deprecated since NKI 0.4",
            use=f"write nl.tile_size.{SIZES[node.attr]}",
            limit="it still works, and gives the same number",
        )


@syntax_rule("NKI604", on_host=True)
def check_keywords(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each deprecated keyword of a call of `nki.jit` in the module, as a decorator or not."""
    calls = (node for scope in facts.module.subtree() for node in scope.calls)
    for node in calls:
        for item in node.keywords if facts.imported(node.func) == "nki.jit" else ():
            if item.arg in KEYWORDS:
                yield facts.report(
                    "NKI604",
                    item.value,
                    f"nki.jit({item.arg}=...) is deprecated",
                    limit="NKI 0.3 and later have nki.jit without it",
                    use=KEYWORDS[item.arg],
                )
