"""Findings about a kernel as a whole: the origin of its shapes, and reasons why it was not evaluated."""

from __future__ import annotations

import ast
from dataclasses import replace

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.kernel_runtime.interpreter import Signature
from nki_lab.source import KernelFunction, SyntaxFacts


def named(facts: SyntaxFacts, kernel: KernelFunction, signature: Signature, item: Diagnostic) -> Diagnostic:
    """Return a finding of an evaluation: with a place, and with the call that gave the shapes."""
    if item.span is None:
        item = replace(item, span=signature.span or facts.name_span(kernel.node))
    assert item.span is not None
    if signature.span is None or item.code in ("NKI120", "NKI122"):
        return item
    where = Related(f"with the arguments of this call: {kernel.node.name}{signature}", signature.span)
    return replace(item, related=(*item.related, where))


def not_evaluated(facts: SyntaxFacts, kernel: KernelFunction, reason: str) -> Diagnostic:
    """Return the NKI122 finding of a kernel that is not evaluated at all."""
    message = f"{kernel.node.name} {reason}"
    return diagnose("NKI122", message, span=facts.name_span(kernel.node), limit="the syntax rules apply in any case")


def out_of_steps(facts: SyntaxFacts, kernel: KernelFunction, steps: int) -> Diagnostic:
    """Return the NKI120 finding of a kernel that the steps of its file do not reach."""
    return diagnose(
        "NKI120",
        f"{kernel.node.name} is not evaluated: the kernels above it took the {steps:,} steps of a file",
        span=facts.name_span(kernel.node),
        limit="an editor answers in bounded time and memory",
        help="run the kernel to check it, or move it to a file of its own",
    )


def without_shapes(facts: SyntaxFacts, kernel: KernelFunction) -> Diagnostic:
    """Return the NKI121 finding of a kernel whose shapes the source does not give."""
    names = ", ".join(parameters_of(kernel.node))
    return diagnose(
        "NKI121",
        f"the shapes of {kernel.node.name}'s arguments ({names}) are not known: only what holds for all is checked",
        span=facts.name_span(kernel.node),
        limit="shapes come from nki.typing annotations, from calls in this file and in its tests, and from args=",
        help=f"annotate the parameters, for example {names.split(', ', maxsplit=1)[0]}: nt.tensor[128, 512]",
    )


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the parameters of a function, but for `*args` and `**kwargs`."""
    arguments = node.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
