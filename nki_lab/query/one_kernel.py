"""A kernel evaluated with one signature."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, Related
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.dtype import NamedDType
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.interpreter import (
    REACHED,
    UNKNOWN,
    Budget,
    EnumMember,
    Evaluation,
    HostRun,
    Instance,
    KnownCalls,
    ModuleFinder,
    ModuleStates,
    Signature,
    TileSpec,
    evaluate,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.issue.launching import refused as launch_refused
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import DynamicSlice
from nki_lab.query.evaluation_cache import KernelEvaluation
from nki_lab.query.fitting import BySpan, by_span
from nki_lab.query.issued import issued
from nki_lab.query.reach import reach_of
from nki_lab.query.recorded import Calls
from nki_lab.rules import ProgramFacts, check_program, without_consequences
from nki_lab.source import KernelFunction, ModuleSource

STEPS: Final = 12_000_000
"""Steps for the kernels of one file: half a minute at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """The options of an evaluation.

    `explicit` replaces the signatures of the source, `given` come before them by the names of kernels, `recorded` after
    them by the names of functions, beside the calls in the project's file. `steps` bound the whole module. `library`
    has the modules that it imports; without one what they have is unknown. Unless `judged`, only the faults of single
    instructions are found: a run that follows judges the whole program. `alone` says that the facts are those of one
    kernel among others. `light` evaluates a function without shapes once, and concludes nothing from it. With
    `possible`, what is wrong for some arguments of a function without shapes is found too. Cells that name a target are
    evaluated for that one: `targets` has their first and last lines. Unless it `describes`, nobody reads what variables
    are: functions without shapes take no runs for that alone. While a kernel is evaluated, `early` is given the sure
    findings so far, every few milliseconds: it reads them where it has a use for them.
    """

    arch: Arch
    options: Options | None = None
    explicit: Signature | None = None
    budget: Budget = field(default_factory=Budget)
    steps: int = STEPS
    given: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    library: ModuleFinder = field(default_factory=ModuleFinder)
    judged: bool = True
    possible: bool = False
    alone: bool = False
    light: bool = False
    recorded: Calls = field(default_factory=dict)
    targets: tuple[tuple[int, int, str], ...] = ()
    describes: bool = True
    early: Callable[[Iterable[Diagnostic]], None] | None = field(default=None, compare=False)

    def at(self, line: int) -> EvaluationRequest:
        """Return the request for a function that begins on a line."""
        arch = arch_at(line, self.targets, self.arch)
        return self if arch is self.arch else replace(self, arch=arch)


def arch_at(line: int, targets: Iterable[tuple[int, int, str]], arch: Arch) -> Arch:
    """Return the target of a line: that of the cell around it, where it names one that there is, else `arch`."""
    name = next((name for first, last, name in targets if first <= line <= last), "")
    try:
        return arch_of(name) if name else arch
    except NkiError:  # the cell's run says so
        return arch


def evaluation_of(
    module: ModuleSource,
    kernel: KernelFunction,
    signature: Signature,
    request: EvaluationRequest,
    known: KnownCalls,
    states: ModuleStates,
    *,
    inner: bool,
    host: tuple[HostRun, tuple[str, str]] | None = None,
) -> KernelEvaluation:
    """Evaluate a kernel with one signature, and judge its program; of one that a function makes, as in a `host`."""
    refused = (
        None if kernel.dialect == "beta1" else launch_refused(kernel.node.name, signature.grid or (), request.arch)
    )
    if refused is not None:
        refused, signature = replace(refused, span=signature.span), replace(signature, grid=())
    with module.shown(), ExitStack() as others:
        result = evaluate(
            module,
            kernel.node.name,
            signature,
            arch=request.arch,
            options=request.options,
            budget=request.budget,
            dialect=kernel.dialect,
            library=request.library,
            inner=inner,
            host=host,
            known_calls=known,
            states=states,
        )
        for other in result.modules:
            others.enter_context(other.shown())
        findings = [*([] if refused is None else [refused]), *result.diagnostics]
        if request.judged and not inner:  # what a helper writes is for its caller to read
            findings += _judged(result)
        findings = without_consequences(findings)
    return KernelEvaluation(
        findings=tuple(reached(module.file, result, item) for item in findings),
        variables=result.types,
        expressions=result.expressions,
        issued=issued(result.program, module.file),
        depends=outermost(result.called | {kernel.node.name}),
        reads=result.reads,
        reach=reach_of(result, assumed=False),
        steps=result.steps,
        module_steps=result.module_steps,
        allowed=request.budget.steps,
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


class WholePrograms:
    """Judges programs of kernels with assumed arguments as a whole: their memory, and where their results are.

    What a program does not do, write a tile or a result, it may do with other arguments: of loops that the assumed ones
    do not enter nothing is known.
    """

    def __init__(self, module: ModuleSource, *, is_kernel: bool) -> None:
        self._module = module
        self._codes = _OF_KERNELS if is_kernel else frozenset[str]()
        self._known: dict[int, tuple[Evaluation, BySpan]] = {}

    def __call__(self, result: Evaluation) -> BySpan:
        """Return the findings on one evaluation by their places, which are worked out once."""
        known = self._known.get(id(result))
        if known is None:
            with ExitStack() as shown:
                for module in (self._module, *result.modules):
                    shown.enter_context(module.shown())
                found = [*result.diagnostics, *self._found(result)]
            known = self._known[id(result)] = result, by_span(item for item in found if item.code in self._codes)
        return known[1]

    def _found(self, result: Evaluation) -> Iterator[Diagnostic]:
        if self._codes:
            facts = ProgramFacts(program=result.program, doubtful=result.tainted, complete=result.complete)
            yield from facts.allocation.diagnostics


_OF_KERNELS: Final = frozenset({"NKI315", "NKI607"})


def reached(file: str, result: Evaluation, item: Diagnostic) -> Diagnostic:
    """Return a finding; what is found in another module says where this one leads there."""
    if item.span is None or item.span.file == file or any(other.message == REACHED for other in item.related):
        return item
    origin = result.origins.get((item.span.file, item.span.line))
    return item if origin is None else replace(item, related=(*item.related, Related(REACHED, origin)))


def outermost(names: Iterable[str]) -> frozenset[str]:
    """Return the functions at module level that hold the functions of these qualified names."""
    return frozenset(name.partition(".")[0] for name in names)


def signature_key(signature: Signature) -> Hashable:
    """Return the signature as far as an evaluation depends on it; None where its values are objects of the user's."""
    parts = [*signature.args, *signature.kwargs.items(), signature.grid, signature.schedule, signature.launch]
    try:
        return tuple(_plain(item) for item in parts)
    except (TypeError, RecursionError):
        return None


def _plain(value: object) -> Hashable:
    match value:
        case None | bool() | int() | float() | str() | TensorSpec() | TileSpec() | np.dtype():
            return (type(value).__name__, repr(value))
        case tuple() | list():
            return (type(value).__name__, *(_plain(item) for item in value))
        case dict():
            return ("dict", *((_plain(key), _plain(item)) for key, item in value.items()))
        case Instance(cls=cls, fields=fields):
            return ("object", cls.name, *((key, _plain(item)) for key, item in fields.items()))
        case EnumMember(cls=cls, name=name):
            return ("member", cls.name, name)
        case Enum() | NamedDType() | DynamicSlice() | range() | slice():
            return (type(value).__name__, repr(value))
        case _ if value is UNKNOWN:
            return ("unknown",)
        case _:
            raise TypeError(type(value).__name__)
