"""The checks: each rule reads facts and yields diagnostics of one code.

A rule names the stage whose facts it needs. `syntax` needs the parsed source only, `program` a specialised kernel,
`timed` the times of one.
"""

from __future__ import annotations

from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules import (
    affine_dependency,
    block_scope,
    carried_name,
    class_base,
    comprehension,
    constant_range,
    core_barrier_tensor,
    core_race,
    core_write_race,
    dead_store,
    del_global_nonlocal,
    deprecated_keyword,
    deprecated_name,
    dict_key,
    dma_overlap,
    dma_writes_twice,
    enum_operator,
    exception_handling,
    float32_matmul,
    generator_or_async,
    host_library,
    identity_comparison,
    ineffective_write,
    inexact_integer,
    keyword_only_parameter,
    lambda_,
    list_argument,
    low_precision_sum,
    mixed_window,
    mutable_global,
    narrow_detour,
    nested_kernel,
    nothing_returned,
    outside_kernel,
    parameter_not_returned,
    parameter_written,
    range_alias,
    removed_name,
    shared_output_scope,
    single_buffer,
    small_dma,
    sum_overwritten,
    sum_read_early,
    syntax_error,
    walrus_match_set,
    with_statement,
)
from nki_lab.rules.facts import Rule, SyntaxFacts, syntax_facts
from nki_lab.rules.kernel_code import Dialect, KernelClass, KernelFunction
from nki_lab.rules.program_facts import ProgramFacts, ProgramRule
from nki_lab.rules.racing import without_consequences
from nki_lab.rules.timed_facts import TimedFacts, TimedRule

__all__ = [
    "PROGRAM_RULES",
    "SYNTAX_RULES",
    "TIMED_RULES",
    "Dialect",
    "KernelClass",
    "KernelFunction",
    "ProgramFacts",
    "ProgramRule",
    "Rule",
    "SyntaxFacts",
    "TimedFacts",
    "TimedRule",
    "check_program",
    "check_syntax",
    "check_timed",
    "syntax_facts",
    "without_consequences",
]

SYNTAX_RULES: Final[tuple[Rule, ...]] = (
    outside_kernel.RULE,
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
    mutable_global.RULE,
    enum_operator.RULE,
    range_alias.RULE,
    ineffective_write.RULE,
    nested_kernel.RULE,
    host_library.RULE,
    parameter_written.RULE,
    parameter_not_returned.RULE,
    shared_output_scope.RULE,
    block_scope.RULE,
    deprecated_name.RULE,
    removed_name.RULE,
    deprecated_keyword.RULE,
)

PROGRAM_RULES: Final[tuple[ProgramRule, ...]] = (
    core_race.RULE,
    core_write_race.RULE,
    core_barrier_tensor.RULE,
    dma_overlap.RULE,
    dma_writes_twice.RULE,
    dead_store.RULE,
    nothing_returned.RULE,
    sum_overwritten.RULE,
    sum_read_early.RULE,
    mixed_window.RULE,
    affine_dependency.RULE,
    low_precision_sum.RULE,
    narrow_detour.RULE,
    inexact_integer.RULE,
    constant_range.RULE,
)

TIMED_RULES: Final[tuple[TimedRule, ...]] = (small_dma.RULE, float32_matmul.RULE, single_buffer.RULE)


def check_syntax(facts: SyntaxFacts, *, on_host: bool = True) -> list[Diagnostic]:
    """What the syntax rules find in the kernel code of a module, and `on_host` around it, in the order of the source.

    Of a text as typed that is first what keeps lines of it from being read; these lines have no other findings.
    """
    views: dict[tuple[Dialect, ...], SyntaxFacts] = {}
    faults, unread = facts.parsed.faults, facts.parsed.unread
    found: list[Diagnostic] = []
    for rule in SYNTAX_RULES:
        if rule.on_host and not on_host:
            continue
        if rule.dialects not in views:
            views[rule.dialects] = facts.limited(rule.dialects)
        found.extend(rule.check(views[rule.dialects]))
    found = [item for item in found if item.line not in unread]
    return sorted([*faults, *found], key=lambda item: (item.line, item.column, item.code))


def check_program(facts: ProgramFacts) -> list[Diagnostic]:
    """What the rules on a whole kernel find, rule by rule."""
    dialect = facts.program.dialect
    return [item for rule in PROGRAM_RULES if dialect in rule.dialects for item in rule.check(facts)]


def check_timed(facts: TimedFacts) -> list[Diagnostic]:
    """What would make a kernel faster, rule by rule."""
    return [item for rule in TIMED_RULES for item in rule.check(facts)]
