"""NKI604: keywords of `nki.jit` that have no effect any more, or no lasting one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

REMEDIES: Final[Mapping[str, str]] = {
    "platform_target": "set NEURON_PLATFORM_TARGET_OVERRIDE",
    "mode": "drop it: the arguments tell which framework calls",
}
"""NKI migration guide, 0.3: keyword -> what to do instead."""


@syntax_rule("NKI604", on_host=True)
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each such keyword of a call of `nki.jit` in the module, as a decorator or not."""
    for scope in facts.module.subtree():
        for node in scope.calls:
            if facts.imported(node.func) == "nki.jit":
                for item in node.keywords:
                    if item.arg is not None and item.arg in REMEDIES:
                        yield facts.report(
                            "NKI604",
                            item.value,
                            f"nki.jit({item.arg}=...) is deprecated",
                            limit="NKI 0.3 and later have nki.jit without it",
                            use=REMEDIES[item.arg],
                        )
