"""The kernels of a module, evaluated with every signature that the source gives them."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.coverage import cover
from nki_lab.kernel_runtime.frontend.arguments import TensorSpec
from nki_lab.kernel_runtime.frontend.evaluator import (
    Budget,
    ModuleSource,
    Signature,
    Variable,
    evaluate,
    legacy_dialect,
    signatures,
)
from nki_lab.kernel_runtime.frontend.evaluator.signatures import HOST_BUDGET, MOST
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.query.issued import Issued, issued
from nki_lab.query.memory import Block, Made, Memory, Place, blocks_of
from nki_lab.rules import KernelFunction, SyntaxFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How kernels are evaluated.

    `explicit` replaces the signatures of the source, `given` come before them by the names of kernels. `seconds` bound
    the whole module.
    """

    arch: Arch
    options: Options | None = None
    explicit: Signature | None = None
    budget: Budget = field(default_factory=Budget)
    seconds: float = 60.0
    given: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Answers:
    """What evaluating the kernels of a module gave; of several evaluations of one place the first counts."""

    findings: list[Diagnostic] = field(default_factory=list)
    variables: dict[Place, Variable] = field(default_factory=dict)
    issued: dict[Place, Issued] = field(default_factory=dict)
    entered: set[str] = field(default_factory=set)

    def add(self, made: Made) -> None:
        """Take in one evaluation, but for its findings."""
        self.variables = {**made.variables, **self.variables}
        self.issued = {**made.issued, **self.issued}
        self.entered |= made.entered


def evaluated(facts: SyntaxFacts, question: Question, memory: Memory) -> Answers:
    """Evaluate the kernels of a module, each with at most four signatures."""
    answers = Answers()
    unshaped: list[KernelFunction] = []
    deadline = perf_counter() + question.seconds
    for part in _parts(facts):
        known = _signatures(part, question, memory)
        for kernel in part.kernels:
            name = kernel.node.name
            if kernel.dialect == "legacy" and legacy_dialect() is None:
                text = f"{name} is a kernel of neuronxcc.nki, which is not evaluated here"
                answers.findings.append(_note(facts, kernel, "NKI122", text))
            elif part.module.function(name) is not kernel.node:
                text = f"{name} is made inside another function: only its syntax is checked"
                answers.findings.append(_note(facts, kernel, "NKI122", text))
            elif not known.get(name):
                unshaped.append(kernel)
            else:
                for signature in known[name]:
                    made = _answer(part, kernel, signature, question, memory, deadline)
                    if made is None:
                        answers.findings.append(_out_of_time(facts, kernel, question.seconds))
                        break
                    answers.add(made)
                    answers.findings += [_named(facts, kernel, signature, item) for item in made.findings]
    for kernel in unshaped:
        if kernel.node.name not in answers.entered and _parameters(kernel.node):
            answers.findings.append(_unshaped(facts, kernel))
    return answers


# -- a name that is bound twice ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """A module up to where the names of `kernels` are bound again: the whole of it, for most."""

    module: ModuleSource
    kernels: tuple[KernelFunction, ...]
    blocks: tuple[Block, ...]


def _parts(facts: SyntaxFacts) -> Iterator[_Part]:
    """The kernels by the part of the module that their names live in.

    A notebook defines a kernel, launches it, and defines it better in a later cell.
    """
    body = facts.tree.body
    places = {id(node): i for i, node in enumerate(body)}
    by_end: dict[int, list[KernelFunction]] = {}
    for kernel in (item for item in facts.functions if item.is_entry):
        at = places.get(id(kernel.node))
        later = range(len(body), len(body)) if at is None else range(at + 1, len(body))
        end = next((i for i in later if getattr(body[i], "name", "") == kernel.node.name), len(body))
        by_end.setdefault(end, []).append(kernel)
    blocks = blocks_of(body, facts.lines)
    for end, kernels in by_end.items():
        tree = facts.tree if end == len(body) else ast.Module(body=body[:end], type_ignores=[])
        yield _Part(ModuleSource(facts.source, facts.file, tree), tuple(kernels), blocks[:end])


# -- answers that are remembered -----------------------------------------------------------------------------------


def _signatures(part: _Part, question: Question, memory: Memory) -> Mapping[str, Sequence[Signature]]:
    top = {item.node.name for item in part.kernels if part.module.function(item.node.name) is item.node}
    if question.explicit is not None:
        return dict.fromkeys(top, (question.explicit,))
    asked = ("signatures", tuple(sorted(top)), len(part.blocks))
    found: dict[str, tuple[Signature, ...]] | None = memory.recall(asked, part.blocks, part.module.file)
    if found is None:
        called: set[str] = set()
        budget = replace(HOST_BUDGET, stop=question.budget.stop)
        found = signatures(part.module, sorted(top), budget, called)
        memory.keep(asked, part.blocks, found, _outermost(called))
    return {name: (*question.given.get(name, ()), *found.get(name, ()))[:MOST] for name in top}


def _outermost(names: set[str] | frozenset[str]) -> frozenset[str]:
    """The functions at module level that hold the functions of these qualified names."""
    return frozenset(name.partition(".")[0] for name in names)


def _answer(
    part: _Part, kernel: KernelFunction, signature: Signature, question: Question, memory: Memory, deadline: float
) -> Made | None:
    """The evaluation of a kernel with a signature; None where there is no time for it."""
    name, file = kernel.node.name, part.module.file
    key = _key(signature)
    asked = (name, len(part.blocks), key, question.arch.target, question.options, question.budget, kernel.dialect)
    made: Made | None = None if key is None else memory.recall(asked, part.blocks, file)
    left = deadline - perf_counter()
    if made is not None or left <= 0:
        return made
    budget = replace(question.budget, seconds=min(question.budget.seconds, left))
    made = _evaluation(part.module, kernel, signature, question, budget)
    if key is not None:
        memory.keep(asked, part.blocks, made, made.depends)
    return made


def _evaluation(
    module: ModuleSource, kernel: KernelFunction, signature: Signature, question: Question, budget: Budget
) -> Made:
    with module.shown():
        result = evaluate(
            module, kernel.node.name, signature, arch=question.arch, options=question.options, budget=budget,
            dialect=kernel.dialect,
        )  # fmt: skip
        placed = allocate(result.program)
        findings = [*result.diagnostics, *cover(result.program, result.tainted).diagnostics, *placed.diagnostics]
        if result.program.user_edges:
            findings += schedule(result.program, placed).diagnostics
    return Made(
        findings=tuple(findings),
        variables=result.types,
        issued=issued(result.program),
        depends=_outermost(result.called | {kernel.node.name}),
        entered=result.entered,
    )


def _key(signature: Signature) -> Hashable:
    """The signature as far as an evaluation depends on it; None where its values are objects of the user's."""
    parts = [*signature.args, *signature.kwargs.items(), signature.grid, signature.schedule]
    try:
        return tuple(_plain(item) for item in parts)
    except TypeError:
        return None


def _plain(value: Any) -> Hashable:
    match value:
        case None | bool() | int() | float() | str() | TensorSpec() | np.dtype():
            return (type(value).__name__, repr(value))
        case tuple() | list():
            return (type(value).__name__, *(_plain(item) for item in value))
        case _:
            raise TypeError(type(value).__name__)


# -- findings ------------------------------------------------------------------------------------------------------


def _named(facts: SyntaxFacts, kernel: KernelFunction, signature: Signature, item: Diagnostic) -> Diagnostic:
    """A finding of an evaluation: with a place, and with the call that gave the shapes."""
    if item.span is None:
        item = replace(item, span=signature.span or facts.name_span(kernel.node))
    if signature.span is None or item.code in ("NKI120", "NKI122"):
        return item
    where = Related(f"with the arguments of this call: {kernel.node.name}{signature}", signature.span)
    return replace(item, related=(*item.related, where))


def _note(facts: SyntaxFacts, kernel: KernelFunction, code: str, message: str) -> Diagnostic:
    return diagnose(code, message, span=facts.name_span(kernel.node), limit="the syntax rules apply in any case")


def _out_of_time(facts: SyntaxFacts, kernel: KernelFunction, seconds: float) -> Diagnostic:
    return diagnose(
        "NKI120",
        f"{kernel.node.name} is not evaluated: the kernels above it took the {seconds:g} seconds of a file",
        span=facts.name_span(kernel.node),
        limit="an editor answers in bounded time and memory",
        help="run the kernel to check it, or move it to a file of its own",
    )


def _unshaped(facts: SyntaxFacts, kernel: KernelFunction) -> Diagnostic:
    names = ", ".join(_parameters(kernel.node))
    return diagnose(
        "NKI121",
        f"the shapes of {kernel.node.name}'s arguments ({names}) are not known here: only its syntax is checked",
        span=facts.name_span(kernel.node),
        limit="shapes come from nki.typing annotations, from calls in this file, and from args=",
        help=f"annotate the parameters, for example {names.split(', ', maxsplit=1)[0]}: nt.tensor[128, 512]",
    )


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = node.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
