"""Findings about a kernel as a whole: the origin of its shapes, and reasons why it was not evaluated."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.kernel_runtime.interpreter import Signature
from nki_lab.query.call_sites import CallSite, counted
from nki_lab.source import KernelFunction, SyntaxFacts
from nki_lab.source.paths import path_to
from nki_lab.source.trees import FUNCTIONS, FunctionNode, extent


def named(facts: SyntaxFacts, kernel: KernelFunction, signature: Signature, item: Diagnostic) -> Diagnostic:
    """Return a finding of an evaluation: with a place, and with the call that gave the shapes."""
    if item.span is None:
        item = replace(item, span=signature.span or facts.name_span(kernel.node))
    assert item.span is not None
    if signature.span is None or item.code in ("NKI120", "NKI122"):
        return item
    where = Related(f"{_CALL}{kernel.node.name}{signature}", signature.span)
    return replace(item, related=(*item.related, where))


_CALL: Final = "with the arguments of this call: "


def shapes_once(found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield findings of which only the first of each call tells the arguments of that call; the others have its place.

    For lists that are read from the beginning.
    """
    told: set[Related] = set()
    for item in found:
        again = {part for part in item.related if part in told}
        told.update(part for part in item.related if part.message.startswith(_CALL))
        if again:
            related = [
                Related("with the same arguments", part.span) if part in again else part for part in item.related
            ]
            item = replace(item, related=tuple(related))  # noqa: PLW2901 - the same finding
        yield item


def not_evaluated(facts: SyntaxFacts, kernel: KernelFunction, reason: str) -> Diagnostic:
    """Return the NKI122 finding of a kernel that is not evaluated at all."""
    message = f"{kernel.node.name} {reason}"
    return diagnose("NKI122", message, span=facts.name_span(kernel.node), limit="the syntax rules apply in any case")


def out_of_reach(facts: SyntaxFacts, kernel: KernelFunction) -> Diagnostic:
    """Return the NKI122 finding of a kernel that no name of the module's stands for, with the reason."""
    place, where = extent(kernel.node), "in a branch, and another definition of the name stands"
    for node in path_to(facts.tree, place):
        if node is kernel.node:
            break
        if isinstance(node, FUNCTIONS):
            where = "inside another function, and no call in this file launches it"
        elif isinstance(node, ast.ClassDef):
            where = f"in the class {node.name}"
    return not_evaluated(facts, kernel, f"is defined {where}: only its syntax is checked")


def out_of_steps(facts: SyntaxFacts, kernel: KernelFunction, steps: int) -> Diagnostic:
    """Return the NKI120 finding of a kernel that the steps of its file do not reach."""
    return diagnose(
        "NKI120",
        f"{kernel.node.name} is not evaluated: the kernels above it took the {steps:,} steps of a file",
        span=facts.name_span(kernel.node),
        limit="an editor answers in bounded time and memory",
        help="run the kernel to check it, or move it to a file of its own",
    )


def not_sampled(facts: SyntaxFacts, functions: Sequence[KernelFunction], steps: int) -> Diagnostic:
    """Return the NKI120 finding of the functions without shapes that the budget of their file does not reach."""
    first, *others = sorted((item.node for item in functions), key=lambda node: node.lineno)
    more = f" and {len(others):,} more functions without shapes are" if others else ", which has no shapes, is"
    budget = (
        f"those above took the budget of a file, {MOST_SAMPLED:,} functions without shapes that differ, {MOST_RUNS:,}"
        f" runs of them with assumed arguments, or {steps:,} steps"
    )
    return _beyond(
        facts, first, f"{more} not evaluated: {budget}", "annotate the parameters with shapes, or split the file"
    )


MOST_SAMPLED: Final = 500
"""Functions of one file, of different texts, that are evaluated with assumed arguments: some seconds."""
MOST_RUNS: Final = 15_000
"""Evaluations of these functions: about 120 of one in which something is wrong for all arguments, 3 of a right one."""


def bound_again(facts: SyntaxFacts, kernels: Sequence[KernelFunction]) -> Diagnostic:
    """Return the NKI120 finding of the kernels that the evaluation of their module up to them does not reach."""
    first, *others = (item.node for item in kernels)
    more = f" and {len(others):,} more kernels whose names are bound again are" if others else " is"
    budget = (
        "the module is evaluated up to where a name of a kernel is bound again, and the definitions below took the"
        f" budget of a file, {MOST_STATEMENTS:,} statements"
    )
    return _beyond(facts, first, f"{more} not evaluated: {budget}", "give the kernels names of their own")


MOST_STATEMENTS: Final = 30_000
"""Statements of one file that are evaluated for kernels whose names are bound again, each for every such part."""


def _beyond(facts: SyntaxFacts, first: FunctionNode, said: str, use: str) -> Diagnostic:
    """Return the NKI120 finding of functions that a budget does not reach, at the first of them."""
    limit = "an editor answers in bounded time and memory; the syntax rules apply in any case"
    return diagnose("NKI120", f"{first.name}{said}", span=facts.name_span(first), limit=limit, help=use)


def without_shapes(facts: SyntaxFacts, kernels: Sequence[KernelFunction], sites: Sequence[CallSite]) -> Diagnostic:
    """Return the NKI121 finding of the kernels whose shapes the source does not give; `sites` are the calls around."""
    first, *others = sorted((item.node for item in kernels), key=lambda node: node.lineno)
    names = [node.name for node in (first, *others)]
    known = counted(sites)["fully"]
    calls = f"{len(sites)} NKI call{'s' * (len(sites) != 1)}"
    count = f"{calls}, none with known shapes" if not known else f"{calls}, {known} with known shapes"
    shown = ", ".join(names[:_MOST_NAMED]) + f" and {len(names) - _MOST_NAMED} more" * (len(names) > _MOST_NAMED)
    parameter = parameters_of(first)[0]
    return diagnose(
        "NKI121",
        f"{count}: only what holds for all shapes is checked in {shown}",
        span=facts.name_span(first),
        operand=parameter,
        limit="shapes come from nki.typing annotations, from calls in this project, and from its settings",
        help=f"annotate the parameters, for example {parameter}: nt.tensor[128, 512], or write"
        f' {first.name} = {{ {parameter} = "bfloat16[128,512]" }} below [tool.nki-lab.shapes] in pyproject.toml',
        related=tuple(Related(f"{node.name} has no known shapes either", facts.name_span(node)) for node in others),
    )


_MOST_NAMED: Final = 5


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the parameters of a function, but for `*args` and `**kwargs`."""
    arguments = node.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
