"""NKI601: names of `nl.tile_size` that NKI 0.4 deprecates, and that another name of it replaces exactly."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

SUCCESSORS: Final[Mapping[str, str]] = {
    "psum_fmax": "psum_bank_fmax",
    "total_available_sbuf_size": "sbuf_fmax_bytes",
}
"""NKI API, `nki.language.tile_size`: the same number under a name that says what it counts."""

_TABLE: Final = "nki.language.tile_size"


@syntax_rule("NKI601")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each mention of a deprecated name."""
    for node in facts.find(ast.Attribute):
        successor = SUCCESSORS.get(node.attr)
        if successor is not None and facts.dotted(node) == f"{_TABLE}.{node.attr}":
            yield facts.report(
                "NKI601", node, f"nl.tile_size.{node.attr} is deprecated since NKI 0.4",
                use=f"write nl.tile_size.{successor}", limit="it still works, and gives the same number",
            )  # fmt: skip
