"""The kernels of a module, evaluated with every signature that the source gives them."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.interpreter import (
    REACHED,
    UNKNOWN,
    Assumptions,
    Budget,
    EnumMember,
    Evaluation,
    Instance,
    KnownCalls,
    Launches,
    ModuleFinder,
    Signature,
    beta1_dialect,
    evaluate,
    launches,
)
from nki_lab.kernel_runtime.interpreter.signatures import HOST_BUDGET, MOST
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.issue.launching import refused as launch_refused
from nki_lab.kernel_runtime.options import Options
from nki_lab.query import messages, sampling
from nki_lab.query.callers import called_elsewhere
from nki_lab.query.evaluation_cache import (
    Block,
    EvaluationCache,
    Examination,
    KernelEvaluation,
    Operation,
    Place,
    blocks_of,
)
from nki_lab.query.issued import issued
from nki_lab.rules import ProgramFacts, check_program, without_consequences
from nki_lab.source import KernelFunction, ModuleSource, SyntaxFacts, facts_of
from nki_lab.source.kernel_code import Dialect

V = TypeVar("V")

STEPS: Final = 12_000_000
"""Steps for the kernels of one file: half a minute at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """The options of an evaluation.

    `explicit` replaces the signatures of the source, `given` come before them by the names of kernels. `steps` bound
    the whole module. `library` has the modules that it imports; without one what they have is unknown. Unless `judged`,
    only the faults of single instructions are found: a run that follows judges the whole program.
    """

    arch: Arch
    options: Options | None = None
    explicit: Signature | None = None
    budget: Budget = field(default_factory=Budget)
    steps: int = STEPS
    given: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    library: ModuleFinder = field(default_factory=ModuleFinder)
    judged: bool = True


def evaluated(facts: SyntaxFacts, request: EvaluationRequest, cache: EvaluationCache) -> Examination:
    """Evaluate the kernels of a module, each with at most four signatures."""
    return _ModuleEvaluation(facts, request, cache).run()


@dataclass(frozen=True, slots=True)
class _Part:
    """A module up to where the names of `kernels` are bound again: the whole of it, for most."""

    module: ModuleSource
    kernels: tuple[KernelFunction, ...]
    blocks: tuple[Block, ...]

    @property
    def top(self) -> frozenset[str]:
        """Return the names of kernels that the module still has at its end."""
        return frozenset(item.node.name for item in self.kernels if self.module.function(item.node.name) is item.node)


def _parts(facts: SyntaxFacts) -> Iterator[_Part]:
    """Yield the kernels by the part of the module that their names live in.

    A notebook defines a kernel, launches it, and defines it better in a later cell.
    """
    body = facts.tree.body
    places = {id(node): i for i, node in enumerate(body)}
    by_end: dict[int, list[KernelFunction]] = {}
    for kernel in (item for item in facts.functions if item.is_entry):
        later = range(places.get(id(kernel.node), len(body)) + 1, len(body))
        end = next((i for i in later if getattr(body[i], "name", "") == kernel.node.name), len(body))
        by_end.setdefault(end, []).append(kernel)
    by_end = by_end or {len(body): []}  # it may call kernels of other modules
    blocks = blocks_of(body, facts.lines)
    for end, kernels in by_end.items():
        module = facts.parsed
        if end != len(body):
            module = ModuleSource(module.text, module.file, ast.Module(body=body[:end], type_ignores=[]))
        yield _Part(module, tuple(kernels), blocks[:end])


_Asked = list[tuple[Signature, KernelEvaluation]]


class _ModuleEvaluation:
    """One evaluation of a module; of several evaluations of one place the first counts."""

    def __init__(self, facts: SyntaxFacts, request: EvaluationRequest, cache: EvaluationCache) -> None:
        self._facts = facts
        self._request = request
        self._cache = cache
        self._left = request.steps
        self._findings: list[Diagnostic] = []
        self._known: list[Examination] = []
        self._entered: set[str] = set()
        self._on_host: set[str] = set()

    def run(self) -> Examination:
        """Evaluate all kernels."""
        facts, request = self._facts, self._request
        unshaped: list[tuple[_Part, KernelFunction]] = []
        request.library.refresh()
        for part in _parts(facts):
            called = self._launches(part)
            self._findings += called.failures
            self._on_host |= _outermost(called.called)
            known = self._signatures(part, called)
            for kernel in part.kernels:
                name = kernel.node.name
                if _is_foreign(kernel.dialect):
                    reason = "is a kernel of neuronxcc.nki, which is not evaluated here"
                    self._findings.append(messages.not_evaluated(facts, kernel, reason))
                elif part.module.function(name) is not kernel.node:
                    reason = "is made inside another function: only its syntax is checked"
                    self._findings.append(messages.not_evaluated(facts, kernel, reason))
                elif not known.get(name):
                    unshaped.append((part, kernel))
                else:
                    self._evaluate_all(part, kernel, known[name])
            self._evaluate_others(called)
        if request.explicit is None:
            self._evaluate_unshaped(
                [
                    item
                    for item in unshaped
                    if item[1].node.name not in self._entered and messages.parameters_of(item[1].node)
                ]
            )
            self._sample_helpers()
        return Examination(
            findings=tuple(self._findings),
            variables=_first(item.variables for item in self._known),
            issued=_first(item.issued for item in self._known),
            expressions=_first(item.expressions for item in self._known),
            operations=frozenset().union(*(item.operations for item in self._known)),
            unknown=frozenset().union(*(item.unknown for item in self._known)),
        )

    def _evaluate_all(self, part: _Part, kernel: KernelFunction, signatures: Sequence[Signature]) -> None:
        """Evaluate a kernel with each signature."""
        asked: _Asked = []
        for signature in signatures:
            found = self._evaluate(part, kernel, signature)
            if found is None:
                self._findings.append(messages.out_of_steps(self._facts, kernel, self._request.steps))
                break
            self._known.append(found)
            self._entered |= found.entered
            asked.append((signature, found))
        self._findings += _findings(self._facts, kernel, asked)

    def _evaluate_unshaped(self, unshaped: Sequence[tuple[_Part, KernelFunction]]) -> None:
        """Evaluate kernels with the signatures of other files, and without any where those have none."""
        if not unshaped:
            return
        request, names = self._request, frozenset(kernel.node.name for _, kernel in unshaped)
        found = called_elsewhere(self._facts.file, names, request.library, self._cache, request.budget.stop)
        for part, kernel in unshaped:
            if signatures := found.get(kernel.node.name):
                self._evaluate_all(part, kernel, signatures)
            else:
                self._findings.append(messages.without_shapes(self._facts, kernel))
                self._sample(part, kernel.node.name, kernel.dialect)

    def _sample(self, part: _Part, name: str, dialect: Dialect) -> None:
        """Evaluate a function of whose arguments nothing is known: what is wrong then is wrong for all of them."""
        request, file = self._request, part.module.file
        key = ("assumed", file, name, len(part.blocks), request.arch.target, request.options, dialect)
        if self._left <= 0:
            return
        found = self._cache.recall(key, part.blocks, file, KernelEvaluation)
        if found is None or not request.library.holds(found.reads):
            budget = replace(request.budget, steps=sampling.STEPS)
            spent = 0

            def once(assumptions: Assumptions) -> Evaluation:
                nonlocal spent
                with part.module.shown():
                    result = evaluate(
                        part.module,
                        name,
                        Signature(),
                        arch=request.arch,
                        options=request.options,
                        budget=budget,
                        dialect=dialect,
                        library=request.library,
                        assumptions=assumptions,
                    )
                spent += result.steps
                return result

            sampled = sampling.runs(once)
            results = [run.result for run in sampled]
            findings = tuple(_reached(file, result, item) for result, item in sampling.certain(sampled, once))
            evaluated = frozenset[Operation]().union(*(item.evaluated for item in results))
            found = KernelEvaluation(
                findings=findings,
                variables=_first(item.types for item in results[:1]),
                depends=_outermost({name}.union(*(item.called for item in results))),
                entered=frozenset[str]().union(*(item.entered for item in results)),
                reads={place: stamp for item in results for place, stamp in item.reads.items()},
                operations=frozenset[Operation]().union(*(item.operations for item in results)),
                unknown=frozenset[Operation]().union(*(item.unknown for item in results)) - evaluated,
                steps=spent,
            )
            self._cache.keep(key, part.blocks, found, found.depends)
        self._left -= found.steps
        self._known.append(Examination(variables=found.variables, operations=found.operations, unknown=found.unknown))
        self._entered |= found.entered
        self._findings += found.findings

    def _sample_helpers(self) -> None:
        """Evaluate the functions of a module with NKI that no evaluation entered, but for those that launch kernels."""
        facts = self._facts
        if facts.dialect is None:
            return
        part = _Part(facts.parsed, (), blocks_of(facts.tree.body, facts.lines))
        reached = {item.node: item.dialect for item in facts.functions}
        for node in facts.tree.body:
            if not isinstance(node, ast.FunctionDef) or node.name in self._entered:
                continue
            host = node not in reached and (node.name in self._on_host or node.name.startswith("test"))
            dialect = reached.get(node, facts.dialect)
            if not host and not _is_foreign(dialect):
                self._sample(part, node.name, dialect)

    def _evaluate_others(self, called: Launches) -> None:
        """Evaluate the kernels of other modules that this one calls."""
        for (file, name), signatures in called.other.items():
            module = called.modules[file]
            entries = (item for item in facts_of(module).functions if item.is_entry and item.node.name == name)
            kernel = next(entries, None)
            if kernel is None or _is_foreign(kernel.dialect):
                continue
            part = _Part(module, (kernel,), blocks_of(module.tree.body, module.lines))
            found = ((signature, self._evaluate(part, kernel, signature)) for signature in signatures)
            asked = [(signature, item) for signature, item in found if item is not None]
            self._known += [Examination(operations=item.operations, unknown=item.unknown) for _, item in asked]
            self._findings += _findings(self._facts, kernel, asked)

    # -- cached evaluations --------------------------------------------------------------------------------------------

    def _launches(self, part: _Part) -> Launches:
        """Return the calls of kernels in a part of the module."""
        top, request = tuple(sorted(part.top)), self._request
        if request.explicit is not None:
            return Launches(own=dict.fromkeys(top, (request.explicit,)), other={}, called=frozenset(), reads={})
        key = ("launches", top, len(part.blocks))
        found = self._cache.recall(key, part.blocks, part.module.file, Launches)
        if found is None or not request.library.holds(found.reads):
            budget = replace(HOST_BUDGET, stop=request.budget.stop)
            found = launches(part.module, top, budget, request.library)
            self._cache.keep(key, part.blocks, found, _outermost(found.called))
        return found

    def _signatures(self, part: _Part, called: Launches) -> Mapping[str, Sequence[Signature]]:
        if self._request.explicit is not None:
            return called.own
        return {name: (*self._request.given.get(name, ()), *called.own.get(name, ()))[:MOST] for name in part.top}

    def _evaluate(self, part: _Part, kernel: KernelFunction, signature: Signature) -> KernelEvaluation | None:
        """Return the evaluation of a kernel with a signature; None where the steps of the file are used up."""
        request, file, values = self._request, part.module.file, _key(signature)
        key = (
            file,
            kernel.node.name,
            len(part.blocks),
            values,
            request.arch.target,
            request.options,
            request.budget,
            kernel.dialect,
            request.judged,
        )
        if self._left <= 0:
            return None
        allowed = min(request.budget.steps, self._left)
        found = None if values is None else self._cache.recall(key, part.blocks, file, KernelEvaluation)
        if found is None or not found.is_within(allowed) or not request.library.holds(found.reads):
            budget = replace(request.budget, steps=allowed)
            known = self._cache.calls((request.arch.target, request.options, replace(budget, steps=0)))
            found = _evaluation(part.module, kernel, signature, request, budget, known)
            if values is not None:
                self._cache.keep(key, part.blocks, found, found.depends)
        self._left -= found.steps
        return found


def _is_foreign(dialect: Dialect) -> bool:
    """Return whether a dialect is Beta 1, and nothing evaluates it here."""
    return dialect == "beta1" and beta1_dialect() is None


def _first(tables: Iterable[Mapping[Place, V]]) -> dict[Place, V]:
    """Return the entries of all tables; of several entries at one place the first."""
    return {place: value for table in reversed(list(tables)) for place, value in table.items()}


def _findings(facts: SyntaxFacts, kernel: KernelFunction, asked: _Asked) -> list[Diagnostic]:
    """Return the findings under the signatures of a kernel."""
    found = []
    for signature, evaluation in asked:
        others = [other for _, other in asked if other is not evaluation]
        kept = [
            item for item in evaluation.findings if item.code not in _OF_ALL or not _serves(item, evaluation, others)
        ]
        found += [messages.named(facts, kernel, signature, item) for item in kept]
    return found


_OF_ALL: Final = frozenset({"NKI414"})
"""Findings about operations that serve no purpose: an operation that serves one under another signature is fine."""


def _serves(item: Diagnostic, evaluation: KernelEvaluation, others: Sequence[KernelEvaluation]) -> bool:
    """Return whether the operation of a finding is evaluated under another signature without that finding."""
    if item.span is None:
        return False
    file, place = item.span.file, (item.span.line, item.span.column)
    before = [operation for operation in evaluation.operations if operation[0] == file and operation[1:] <= place]
    return bool(before) and any(
        max(before) in other.operations
        and not any(found.code == item.code and found.span == item.span for found in other.findings)
        for other in others
    )


def _outermost(names: Iterable[str]) -> frozenset[str]:
    """Return the functions at module level that hold the functions of these qualified names."""
    return frozenset(name.partition(".")[0] for name in names)


def _evaluation(
    module: ModuleSource,
    kernel: KernelFunction,
    signature: Signature,
    request: EvaluationRequest,
    budget: Budget,
    known: KnownCalls,
) -> KernelEvaluation:
    refused = None if kernel.dialect == "beta1" else launch_refused(kernel.node.name, signature.grid, request.arch)
    if refused is not None:
        refused, signature = replace(refused, span=signature.span), replace(signature, grid=())
    with module.shown(), ExitStack() as others:
        result = evaluate(
            module,
            kernel.node.name,
            signature,
            arch=request.arch,
            options=request.options,
            budget=budget,
            dialect=kernel.dialect,
            library=request.library,
            known_calls=known,
        )
        for other in result.modules:
            others.enter_context(other.shown())
        findings = [*([] if refused is None else [refused]), *result.diagnostics]
        if request.judged:
            findings += _judged(result)
        findings = without_consequences(findings)
    return KernelEvaluation(
        findings=tuple(_reached(module.file, result, item) for item in findings),
        variables=result.types,
        expressions=result.expressions,
        issued=issued(result.program, module.file),
        depends=_outermost(result.called | {kernel.node.name}),
        entered=result.entered,
        reads=result.reads,
        operations=result.operations,
        unknown=result.unknown,
        steps=result.steps,
        allowed=budget.steps,
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
    """Return a finding; what is found in another module says where this one leads there."""
    if item.span is None or item.span.file == file or any(other.message == REACHED for other in item.related):
        return item
    origin = result.origins.get((item.span.file, item.span.line))
    return item if origin is None else replace(item, related=(*item.related, Related(REACHED, origin)))


def _key(signature: Signature) -> Hashable:
    """Return the signature as far as an evaluation depends on it; None where its values are objects of the user's."""
    parts = [*signature.args, *signature.kwargs.items(), signature.grid, signature.schedule]
    try:
        return tuple(_plain(item) for item in parts)
    except TypeError:
        return None


def _plain(value: object) -> Hashable:
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
