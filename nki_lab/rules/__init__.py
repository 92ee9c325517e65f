"""The checks: each rule reads facts and yields diagnostics of one code.

A rule names the stage whose facts it needs. `syntax` needs the parsed source only.
"""

from __future__ import annotations

from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules import (
    carried_name,
    class_base,
    comprehension,
    del_global_nonlocal,
    deprecated_name,
    dict_key,
    exception_handling,
    generator_or_async,
    identity_comparison,
    keyword_only_parameter,
    lambda_,
    list_argument,
    syntax_error,
    walrus_match_set,
    with_statement,
)
from nki_lab.rules.facts import Rule, SyntaxFacts, syntax_facts
from nki_lab.rules.kernel_code import Dialect, KernelClass, KernelFunction

__all__ = [
    "SYNTAX_RULES",
    "Dialect",
    "KernelClass",
    "KernelFunction",
    "Rule",
    "SyntaxFacts",
    "check_syntax",
    "syntax_facts",
]

SYNTAX_RULES: Final[tuple[Rule, ...]] = (
    syntax_error.RULE,
    comprehension.RULE,
    lambda_.RULE,
    exception_handling.RULE,
    generator_or_async.RULE,
    del_global_nonlocal.RULE,
    walrus_match_set.RULE,
    keyword_only_parameter.RULE,
    identity_comparison.RULE,
    dict_key.RULE,
    class_base.RULE,
    with_statement.RULE,
    list_argument.RULE,
    carried_name.RULE,
    deprecated_name.RULE,
)


def check_syntax(facts: SyntaxFacts) -> list[Diagnostic]:
    """What the syntax rules find in the kernel code of a module, in the order of the source.

    Of a text as typed that is first what keeps lines of it from being read; these lines have no other findings.
    """
    views: dict[tuple[Dialect, ...], SyntaxFacts] = {}
    faults, unread = facts.parsed.faults, facts.parsed.unread
    found: list[Diagnostic] = []
    for rule in SYNTAX_RULES:
        if rule.dialects not in views:
            views[rule.dialects] = facts.limited(rule.dialects)
        found.extend(rule.check(views[rule.dialects]))
    found = [item for item in found if item.line not in unread]
    return sorted([*faults, *found], key=lambda item: (item.line, item.column, item.code))
