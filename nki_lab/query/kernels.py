"""The kernels of a module, evaluated with every signature that the source gives them."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.interpreter import (
    REACHED,
    UNKNOWN,
    Budget,
    EnumMember,
    Evaluation,
    Instance,
    Launches,
    ModuleFinder,
    Signature,
    Variable,
    evaluate,
    launches,
    legacy_dialect,
)
from nki_lab.kernel_runtime.interpreter.signatures import HOST_BUDGET, MOST
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.issue.launching import refused as launch_refused
from nki_lab.kernel_runtime.options import Options
from nki_lab.query.callers import called_elsewhere
from nki_lab.query.issued import Issued, issued
from nki_lab.query.memory import Block, Made, Memory, Operation, Place, blocks_of
from nki_lab.query.said import named, not_evaluated, out_of_time, parameters_of, without_shapes
from nki_lab.rules import ProgramFacts, check_program, without_consequences
from nki_lab.source import KernelFunction, ModuleSource, SyntaxFacts, facts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How kernels are evaluated.

    `explicit` replaces the signatures of the source, `given` come before them by the names of kernels. `seconds` bound
    the whole module. `library` has the modules that it imports; without one what they have is unknown. Unless `judged`,
    only the faults of single instructions are found: a run that follows judges the whole program.
    """

    arch: Arch
    options: Options | None = None
    explicit: Signature | None = None
    budget: Budget = field(default_factory=Budget)
    seconds: float = 60.0
    given: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    library: ModuleFinder = field(default_factory=ModuleFinder)
    judged: bool = True


@dataclass(slots=True)
class Answers:
    """What evaluating the kernels of a module gave; of several evaluations of one place the first counts."""

    findings: list[Diagnostic] = field(default_factory=list)
    variables: dict[Place, Variable] = field(default_factory=dict)
    issued: dict[Place, Issued] = field(default_factory=dict)
    expressions: dict[Place, Variable] = field(default_factory=dict)
    entered: set[str] = field(default_factory=set)
    operations: set[Operation] = field(default_factory=set)
    unknown: set[Operation] = field(default_factory=set)

    def count(self, made: Made) -> None:
        """Take in the operations of one evaluation."""
        self.operations |= made.operations
        self.unknown |= made.unknown

    def add(self, made: Made) -> None:
        """Take in one evaluation, but for its findings."""
        self.count(made)
        self.variables = {**made.variables, **self.variables}
        self.issued = {**made.issued, **self.issued}
        self.expressions = {**made.expressions, **self.expressions}
        self.entered |= made.entered


def evaluated(facts: SyntaxFacts, question: Question, memory: Memory) -> Answers:
    """Evaluate the kernels of a module, each with at most four signatures."""
    answers = Answers()
    unshaped: list[tuple[_Part, KernelFunction]] = []
    deadline = perf_counter() + question.seconds
    question.library.refresh()
    for part in _parts(facts):
        called = _launches(part, question, memory)
        answers.findings += called.failures
        known = _signatures(part, called, question)
        for kernel in part.kernels:
            name = kernel.node.name
            if kernel.dialect == "beta1" and legacy_dialect() is None:
                text = f"{name} is a kernel of neuronxcc.nki, which is not evaluated here"
                answers.findings.append(not_evaluated(facts, kernel, "NKI122", text))
            elif part.module.function(name) is not kernel.node:
                text = f"{name} is made inside another function: only its syntax is checked"
                answers.findings.append(not_evaluated(facts, kernel, "NKI122", text))
            elif not known.get(name):
                unshaped.append((part, kernel))
            else:
                _ask(facts, part, kernel, known[name], question, memory, deadline, answers)
        _ask_others(facts, called, question, memory, deadline, answers)
    unshaped = [item for item in unshaped if item[1].node.name not in answers.entered and parameters_of(item[1].node)]
    if unshaped and question.explicit is None:
        names = frozenset(kernel.node.name for _, kernel in unshaped)
        found = called_elsewhere(facts.file, names, question.library, memory, question.budget.stop)
        for part, kernel in unshaped:
            signatures = found.get(kernel.node.name)
            if signatures:
                _ask(facts, part, kernel, signatures, question, memory, deadline, answers)
            else:
                answers.findings.append(without_shapes(facts, kernel))
                _ask_without(facts, part, kernel, question, memory, deadline, answers)
    return answers


def _ask(
    facts: SyntaxFacts, part: _Part, kernel: KernelFunction, signatures: Sequence[Signature], question: Question,
    memory: Memory, deadline: float, answers: Answers,
) -> None:  # fmt: skip
    """Evaluate a kernel with each signature."""
    asked: list[tuple[Signature, Made]] = []
    for signature in signatures:
        made = _answer(part, kernel, signature, question, memory, deadline)
        if made is None:
            answers.findings.append(out_of_time(facts, kernel, question.seconds))
            break
        answers.add(made)
        asked.append((signature, made))
    answers.findings += _findings(facts, kernel, asked)


def _findings(facts: SyntaxFacts, kernel: KernelFunction, asked: Sequence[tuple[Signature, Made]]) -> list[Diagnostic]:
    """What was found under the signatures of a kernel."""
    found = []
    for signature, made in asked:
        others = [other for _, other in asked if other is not made]
        kept = [item for item in made.findings if item.code not in _OF_ALL or not _serves(item, made, others)]
        found += [named(facts, kernel, signature, item) for item in kept]
    return found


_OF_ALL = frozenset({"NKI414"})
"""Findings about operations that serve no purpose: one that serves some under another signature is none."""


def _serves(item: Diagnostic, made: Made, others: Sequence[Made]) -> bool:
    """Whether the operation of a finding is evaluated under another signature, and nothing is found there."""
    if item.span is None:
        return False
    file, place = item.span.file, (item.span.line, item.span.column)
    before = [operation for operation in made.operations if operation[0] == file and operation[1:] <= place]
    return bool(before) and any(
        max(before) in other.operations
        and not any(found.code == item.code and found.span == item.span for found in other.findings)
        for other in others
    )


def _ask_without(
    facts: SyntaxFacts, part: _Part, kernel: KernelFunction, question: Question, memory: Memory, deadline: float,
    answers: Answers,
) -> None:  # fmt: skip
    """Evaluate a kernel of whose arguments nothing is known: what is wrong then is wrong for all of them."""
    parameters = kernel.node.args
    signature = Signature(
        args=(UNKNOWN,) * len([*parameters.posonlyargs, *parameters.args]),
        kwargs={arg.arg: UNKNOWN for arg in parameters.kwonlyargs},
    )
    made = _answer(part, kernel, signature, question, memory, deadline)
    if made is not None:
        answers.variables = {**made.variables, **answers.variables}
        # Asserts and raises may stand behind a test of an argument, and what nothing writes may be written unseen.
        certain = [item for item in made.findings if item.outcome != "advice" and item.code[3] == "2"]
        answers.findings += [named(facts, kernel, signature, item) for item in certain]


def _ask_others(
    facts: SyntaxFacts, called: Launches, question: Question, memory: Memory, deadline: float, answers: Answers
) -> None:
    """Evaluate the kernels of other modules that this one calls."""
    for (file, name), signatures in called.other.items():
        module = called.modules[file]
        kernel = _kernel_of(module, name)
        if kernel is None or (kernel.dialect == "beta1" and legacy_dialect() is None):
            continue
        part = _Part(module, (kernel,), blocks_of(module.tree.body, module.lines))
        asked = []
        for signature in signatures:
            made = _answer(part, kernel, signature, question, memory, deadline)
            if made is not None:
                answers.count(made)
                asked.append((signature, made))
        answers.findings += _findings(facts, kernel, asked)


def _kernel_of(module: ModuleSource, name: str) -> KernelFunction | None:
    """A kernel of a module that is not the checked one."""
    return next((item for item in facts_of(module).functions if item.is_entry and item.node.name == name), None)


# -- a name that is bound twice ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """A module up to where the names of `kernels` are bound again: the whole of it, for most."""

    module: ModuleSource
    kernels: tuple[KernelFunction, ...]
    blocks: tuple[Block, ...]

    @property
    def top(self) -> frozenset[str]:
        """The names of kernels that the module still has at its end."""
        return frozenset(item.node.name for item in self.kernels if self.module.function(item.node.name) is item.node)


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
    by_end = by_end or {len(body): []}  # it may call kernels of other modules
    blocks = blocks_of(body, facts.lines)
    for end, kernels in by_end.items():
        module = facts.parsed
        if end != len(body):
            module = ModuleSource(module.text, module.file, ast.Module(body=body[:end], type_ignores=[]))
        yield _Part(module, tuple(kernels), blocks[:end])


# -- answers that are remembered -----------------------------------------------------------------------------------


def _launches(part: _Part, question: Question, memory: Memory) -> Launches:
    """How the module calls kernels."""
    top = tuple(sorted(part.top))
    if question.explicit is not None:
        return Launches(own=dict.fromkeys(top, (question.explicit,)), other={}, called=frozenset(), reads={})
    asked = ("launches", top, len(part.blocks))
    found: Launches | None = memory.recall(asked, part.blocks, part.module.file)
    if found is None or not question.library.holds(found.reads):
        budget = replace(HOST_BUDGET, stop=question.budget.stop)
        found = launches(part.module, top, budget, question.library)
        memory.keep(asked, part.blocks, found, _outermost(found.called))
    return found


def _signatures(part: _Part, called: Launches, question: Question) -> Mapping[str, Sequence[Signature]]:
    if question.explicit is not None:
        return called.own
    return {name: (*question.given.get(name, ()), *called.own.get(name, ()))[:MOST] for name in part.top}


def _outermost(names: set[str] | frozenset[str]) -> frozenset[str]:
    """The functions at module level that hold the functions of these qualified names."""
    return frozenset(name.partition(".")[0] for name in names)


def _answer(
    part: _Part, kernel: KernelFunction, signature: Signature, question: Question, memory: Memory, deadline: float
) -> Made | None:
    """The evaluation of a kernel with a signature; None where there is no time for it."""
    name, file = kernel.node.name, part.module.file
    key = _key(signature)
    asked = (name, len(part.blocks), key, question.arch.target, question.options, question.budget, kernel.dialect,
             question.judged)  # fmt: skip
    made: Made | None = None if key is None else memory.recall((file, *asked), part.blocks, file)
    if made is not None and not question.library.holds(made.reads):
        made = None
    left = deadline - perf_counter()
    if made is not None or left <= 0:
        return made
    budget = replace(question.budget, seconds=min(question.budget.seconds, left))
    made = _evaluation(part.module, kernel, signature, question, budget)
    if key is not None:
        memory.keep((file, *asked), part.blocks, made, made.depends)
    return made


def _evaluation(
    module: ModuleSource, kernel: KernelFunction, signature: Signature, question: Question, budget: Budget
) -> Made:
    refused = None if kernel.dialect == "beta1" else launch_refused(kernel.node.name, signature.grid, question.arch)
    if refused is not None:
        refused, signature = replace(refused, span=signature.span), replace(signature, grid=())
    with module.shown(), ExitStack() as others:
        result = evaluate(
            module, kernel.node.name, signature, arch=question.arch, options=question.options, budget=budget,
            dialect=kernel.dialect, library=question.library,
        )  # fmt: skip
        for other in result.modules:
            others.enter_context(other.shown())
        findings = [*([] if refused is None else [refused]), *result.diagnostics]
        if question.judged:
            findings += _judged(result)
        findings = without_consequences(findings)
    return Made(
        findings=tuple(_reached(module.file, result, item) for item in findings),
        variables=result.types,
        expressions=result.expressions,
        issued=issued(result.program, module.file),
        depends=_outermost(result.called | {kernel.node.name}),
        entered=result.entered,
        reads=result.reads,
        operations=result.operations,
        unknown=result.unknown,
    )


def _judged(result: Evaluation) -> Iterator[Diagnostic]:
    """Find what is wrong with a program as a whole: memory, what was written, order, and the rules on programs."""
    placed = allocate(result.program)
    facts = ProgramFacts(
        program=result.program, doubtful=result.tainted, complete=result.complete, known_allocation=placed
    )
    yield from facts.coverage.diagnostics
    yield from placed.diagnostics
    if result.program.user_edges:
        yield from facts.schedule.diagnostics
    yield from check_program(facts)


def _reached(file: str, result: Evaluation, item: Diagnostic) -> Diagnostic:
    """A finding; what is found in another module says where this one leads there."""
    if item.span is None or item.span.file == file or any(other.message == REACHED for other in item.related):
        return item
    origin = result.origins.get((item.span.file, item.span.line))
    return item if origin is None else replace(item, related=(*item.related, Related(REACHED, origin)))


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
        case dict():
            return ("dict", *((_plain(key), _plain(item)) for key, item in value.items()))
        case Instance(cls=cls, fields=fields):
            return ("object", cls.name, *((key, _plain(item)) for key, item in fields.items()))
        case EnumMember(cls=cls, name=name):
            return ("member", cls.name, name)
        case _ if value is UNKNOWN:
            return ("unknown",)
        case _:
            raise TypeError(type(value).__name__)
