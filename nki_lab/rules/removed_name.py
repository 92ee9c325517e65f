"""NKI603: entry points of earlier releases that `nki` no longer has, on the host's side."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.frontend.published import missing
from nki_lab.rules.facts import Rule, SyntaxFacts

_ENTRIES: Final = frozenset({"baremetal", "benchmark", "profile", "simulate_kernel", "trace", "cpu_simulate"})


def check(facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """One finding for each mention of such a name of the module `nki`, wherever it stands."""
    if not any(scope.attributes & _ENTRIES for scope in facts.module.subtree()):
        return
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Attribute) and node.attr in _ENTRIES and facts.imported(node) == f"nki.{node.attr}":
            found = missing("nki", node.attr, ())
            yield facts.report(found.code, node, found.message, limit=found.limit, use=found.help)


RULE = Rule(code="NKI603", stage="syntax", check=check, dialects=("current", "legacy"), on_host=True)
