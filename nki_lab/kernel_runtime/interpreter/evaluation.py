"""Evaluating a kernel without running it: from a module, a name and a signature to a program and findings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.collectives.core_sync import synchronize_cores
from nki_lab.kernel_runtime.interpreter.assembly import assemble, run_module
from nki_lab.kernel_runtime.interpreter.assumptions import Assumptions, assumed_arguments
from nki_lab.kernel_runtime.interpreter.calls import bind, run_body
from nki_lab.kernel_runtime.interpreter.intake import Intake, Signature
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Interpreter, Launch
from nki_lab.kernel_runtime.interpreter.known_calls import CallMemory, KnownCalls
from nki_lab.kernel_runtime.interpreter.limits import (
    ALLOCATION,
    INSTRUCTION,
    Budget,
    FunctionExit,
    Meter,
    OverBudget,
    TooLarge,
    Unobservable,
    budget_reached,
    internal_error,
)
from nki_lab.kernel_runtime.interpreter.module_finder import ModuleFinder, Reads
from nki_lab.kernel_runtime.interpreter.module_states import ModuleStates
from nki_lab.kernel_runtime.interpreter.namespaces import beta1_dialect
from nki_lab.kernel_runtime.interpreter.signatures import HostRun
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, EnumMember, Names, Value
from nki_lab.kernel_runtime.interpreter.variables import Variable, is_telling, variable_of
from nki_lab.kernel_runtime.ir import Program, Site
from nki_lab.kernel_runtime.issue.builder import Builder, NkiInstruction
from nki_lab.kernel_runtime.issue.context import recording
from nki_lab.kernel_runtime.issue.outputs import collect_outputs
from nki_lab.kernel_runtime.language import control
from nki_lab.kernel_runtime.language.kernel_builder import GridBuilder, KernelBuilder
from nki_lab.kernel_runtime.language.scheduling import edges_of
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor
from nki_lab.source.module import ModuleSource

PROGRAMS: int = 16
"""Programs of a launch grid that are evaluated; what the others write is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The results of an evaluation.

    `diagnostics` are in the order they were found. `types` tells what names stood for, by 1-based line and 0-based
    UTF-8 byte column of the place that binds them, and `expressions` what calls and subscripts were first, by the place
    where they end. `tainted` are numbers of buffers that code which was not evaluated
    may have written; nothing is concluded from their being unwritten. `entered` are the functions, by qualified name,
    whose bodies were evaluated; `called` those whose bodies the evaluation depends on. `modules` are the others that
    were evaluated; `origins` has, by file and line, what they recorded, with the call in this module that led there;
    `reads` is what the search for them depends on. `operations` are the calls of NKI's that were met, by file and
    place; those `evaluated` were at least once, those among the `unknown` could not be, or not every time: of these,
    those `omitted` stand in statements that were not evaluated, and were not tried. The module's own statements took
    `module_steps` of the `steps`; with assumptions these are counted after them.
    """

    program: Program
    diagnostics: tuple[Diagnostic, ...]
    types: Mapping[tuple[int, int], Variable]
    expressions: Mapping[tuple[int, int], Variable]
    steps: int
    module_steps: int = 0
    tainted: frozenset[int] = frozenset()
    entered: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    modules: tuple[ModuleSource, ...] = ()
    origins: Mapping[tuple[str, int], Span] = field(default_factory=dict)
    operations: frozenset[tuple[str, int, int]] = frozenset()
    evaluated: frozenset[tuple[str, int, int]] = frozenset()
    unknown: frozenset[tuple[str, int, int]] = frozenset()
    omitted: frozenset[tuple[str, int, int]] = frozenset()
    reads: Reads = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether everything that the kernel does is in the program."""
        return not self.tainted and not self.unknown and not any(_ends_early(item) for item in self.diagnostics)


class MeteredBuilder(Builder):
    """Records a program as the tracer does; instructions cost steps, and notes become findings of the evaluation."""

    meter: Meter
    findings: list[Diagnostic]

    def issue(
        self, instruction: Instruction, live: tuple[Value, ...], fixed: tuple[Value, ...], name: str | None = None
    ) -> NkiInstruction:
        self.meter.spend(INSTRUCTION)
        return super().issue(instruction, live, fixed, name)

    def allocate(
        self, shape: Value, dtype: Value, space: Value, *, name: str = "", address: Value = None, kind: str = "temp"
    ) -> NkiTensor:
        self.meter.spend(ALLOCATION)
        return super().allocate(shape, dtype, space, name=name, address=address, kind=kind)

    def note(self, diagnostic: Diagnostic, site: int) -> None:
        super().note(diagnostic, site)
        self.findings.extend(self.notes)
        self.notes.clear()

    def read(self, tensor: NkiTensor) -> np.ndarray[Any, Any]:
        raise Unobservable


@cache
def _metered(base: type[Builder]) -> type[MeteredBuilder]:
    return type(f"Metered{base.__name__}", (MeteredBuilder, base), {})


def metered_builder(
    program: Program, meter: Meter, findings: list[Diagnostic], base: type[Builder] = KernelBuilder
) -> MeteredBuilder:
    """Return a builder of the dialect's class `base` that records into `program` and adds its notes to `findings`."""
    builder = _metered(base)(program)  # type: ignore[arg-type]  # a class is hashable
    builder.meter, builder.findings = meter, findings
    return builder


def evaluate(
    module: ModuleSource,
    function_name: str,
    arguments: Signature,
    *,
    arch: Arch | str,
    options: Options | None = None,
    budget: Budget | None = None,
    dialect: str = "current",
    library: ModuleFinder | None = None,
    assumptions: Assumptions | None = None,
    inner: bool = False,
    host: tuple[HostRun, tuple[str, str]] | None = None,
    known_calls: KnownCalls | None = None,
    states: ModuleStates | None = None,
) -> Evaluation:
    """Evaluate the function `function_name` of `module` as called with `arguments`.

    Executes and imports nothing of the module's; `library` has the modules that it takes functions from, without one
    those are unknown. With `assumptions`, they take the place of `arguments`. An `inner` function is called as by a
    kernel: it may take and return tensors on the chip. Of a kernel that another function makes, `host` is a run of the
    code that launches it, with its file and qualified name. Calls among `known_calls`, of evaluations for the same
    target and options, are not evaluated again; evaluations with assumptions have known calls of their own. Modules
    among `states` are not evaluated again. Does not raise for anything the module contains.
    """
    budget = budget or Budget()
    begun = budget.begun or (lambda _name: None)
    key = (module, arch, options, dialect, bool(arguments.grid), assumptions is not None)
    states = states or ModuleStates()
    first = budget if assumptions is None else replace(budget, steps=states.steps_of(key, budget.steps))
    interpreter = assemble(module, first, library=library)
    if host is not None:
        host[0].lend(interpreter)
    program = Program(function_name, arch_of(arch), options or Options(), dialect)
    front_end = beta1_dialect() if dialect == "beta1" else None
    plain = GridBuilder if arguments.grid else KernelBuilder
    kind = plain if front_end is None else front_end.Beta1Builder
    builder = metered_builder(program, interpreter.meter, interpreter.findings, kind)
    interpreter.builder = builder
    builder.thorough = assumptions is not None
    begun(function_name)
    module_steps = of_module = 0
    with module.shown(), interpreter.modules.opened, np.errstate(all="ignore"):
        try:
            if host is None:
                states.enter(key, interpreter, run_module, first.steps)
            module_steps, of_module = interpreter.meter.steps, len(interpreter.types)
            if assumptions is not None:  # the module itself assumes nothing
                interpreter.assumptions = assumptions
                interpreter.meter.restart(budget)
            if known_calls is not None and dialect == "current" and host is None:
                interpreter.memory = CallMemory(known_calls, interpreter)
            if host is None:
                function = interpreter.main.globals.get(function_name, UNKNOWN)
                interpreter.main.read.add(function_name)
                function = function.function if isinstance(function, Launch) else function
            else:
                function = host[0].function(host[1], arguments.launch)
            if isinstance(function, Function):
                with recording(builder):
                    _run_kernel(interpreter, builder, function, arguments, assumptions, inner=inner)
                _join(interpreter, program, function)
                _obey(interpreter, program, function, arguments)
            else:
                _not_a_function(interpreter, function_name)
        except Exception as error:  # noqa: BLE001 - an editor goes on after a mistake of ours, and says so
            interpreter.record(internal_error(error), interpreter.meter.node, interpreter.base)
        types = states.variables_of(islice(interpreter.types.items(), of_module))
        for place, (name, value) in islice(interpreter.types.items(), of_module, None):
            if is_telling(value):
                span = interpreter.numbers.get(place)
                types[place] = variable_of(name, value, interpreter.others.get(place, ()), span)
        types |= {
            place: Variable(item.name, str(item), kind="loop", trips=item.trips)
            for place, item in interpreter.ranges.items()
        }
    begun("")
    return Evaluation(
        program=program,
        diagnostics=tuple(interpreter.findings),
        types=types,
        expressions=_summaries(interpreter.tensors, interpreter.others),
        steps=interpreter.meter.steps,
        module_steps=module_steps,
        tainted=frozenset(buffer.id for buffer in interpreter.tainted),
        entered=frozenset(interpreter.entered),
        called=frozenset(interpreter.called),
        modules=tuple(scope.source for scope in interpreter.modules.scopes.values() if scope is not interpreter.main),
        origins=interpreter.origins,
        operations=frozenset(interpreter.operations | interpreter.missed | interpreter.omitted),
        evaluated=frozenset(interpreter.operations),
        unknown=frozenset(interpreter.missed | interpreter.omitted),
        omitted=frozenset(interpreter.omitted - interpreter.missed),
        reads=interpreter.modules.reads,
    )


def _ends_early(item: Diagnostic) -> bool:
    """Return whether something of the kernel was not evaluated because of a finding."""
    return item.outcome == "fault" or item.code in ("NKI120", "NKI122")


@runtime_checkable
class _Starting(Protocol):
    """A builder that starts the next program of a grid."""

    def start(self, grid: tuple[int, ...], ids: tuple[int, ...]) -> None: ...


def _join(interpreter: Interpreter, program: Program, function: Function) -> None:
    """Let the cores of a launch meet, where everything that both do was evaluated.

    Of cores that do not meet nothing is known of when they write what both see, and a kernel that was stopped may have
    been about to write its results.
    """
    joined = False
    if any(map(_ends_early, interpreter.findings)):
        interpreter.tainted |= {tensor._buffer for tensor in program.outputs}
    else:
        try:
            synchronize_cores(program)
            joined = True
        except NkiError as error:
            interpreter.record_all(error.diagnostics, function.node, interpreter.base)
    if not joined and program.cores > 1:
        interpreter.tainted |= {buffer for buffer in program.buffers if buffer.space is MemoryRegion.shared_hbm}


def _obey(interpreter: Interpreter, program: Program, function: Function, arguments: Signature) -> None:
    """Enter the edges of `with_schedule`; a name is missed only where everything was evaluated."""
    edges, missing = edges_of(program, arguments.schedule)
    program.user_edges += edges
    if not any(map(_ends_early, interpreter.findings)):
        interpreter.record_all(missing, function.node, interpreter.base)


def _not_a_function(interpreter: Interpreter, name: str) -> None:
    node = interpreter.main.source.function(name)
    what = f"{name} is not known here: it is made by code that is not evaluated"
    item = diagnose("NKI122", what, limit="the editor evaluates functions that the module defines")
    interpreter.record(item, node, interpreter.base)


def _run_kernel(
    interpreter: Interpreter,
    builder: MeteredBuilder,
    function: Function,
    arguments: Signature,
    assumptions: Assumptions | None,
    *,
    inner: bool,
) -> None:
    grid = arguments.grid or ()
    shared = math.prod(grid) > 1
    builder.pinned = builder.site_of(Site("", 0, 0, 0, 0, ""))  # inputs are made by the caller
    intake = Intake(interpreter, builder, MemoryRegion.shared_hbm if shared else MemoryRegion.private_hbm)
    try:
        if assumptions is None:
            args = [intake.adopt(value) for value in arguments.args]
            kwargs = {name: intake.adopt(value) for name, value in arguments.kwargs.items()}
            names = bind(function, args, kwargs)
            names = {name: intake.take(name, value) for name, value in _in_order(function, names).items()}
        else:
            frame = Frame(interpreter, function.closure, None, {}, function.closure.module)
            names = assumed_arguments(frame, function, builder, assumptions, kernel=function.entry)
    except (NkiError, OverBudget) as end:
        if assumptions is not None:
            item = budget_reached(f"{function.name} has no arguments here: {end}")
            interpreter.record(item, function.node, interpreter.base)
        elif isinstance(end, NkiError):
            interpreter.record_all(end.diagnostics, function.node, interpreter.base)
        else:
            item = budget_reached(f"evaluated up to {end.reason}: the rest is not checked")
            interpreter.record(item, end.node, interpreter.base)
        return
    except RecursionError:
        interpreter.record(budget_reached("the arguments are nested too deeply"), function.node, interpreter.base)
        return
    except TypeError as error:
        code = "NKI003" if "missing" in str(error) else "NKI002"
        item = diagnose(code, str(error), help="call the kernel with the arguments that it declares")
        interpreter.record(item, None, interpreter.base)
        return
    try:
        for number in range(min(PROGRAMS, max(1, math.prod(grid)))):
            if grid and isinstance(builder, _Starting):
                builder.start(grid, tuple(int(index) for index in np.unravel_index(number, grid)))
            frame = Frame(interpreter, function.closure, function, dict(names))
            run_body(frame, function)
            builder.sync()
            control.finish(builder)
            if not inner:
                _collect(interpreter, builder, UNKNOWN if frame.doubtful else frame.result)
    except NkiError as error:  # what the builder had held back
        interpreter.record_all(error.diagnostics, function.node, interpreter.base)
    except FunctionExit:
        return
    except OverBudget as end:
        interpreter.guards = 0
        interpreter.record(budget_reached(f"evaluated up to {end.reason}: the rest is not checked"), end.node, frame)
    except RecursionError:
        interpreter.guards = 0
        interpreter.record(budget_reached("nested too deeply to be evaluated"), function.node, frame)
    if interpreter.lacks_lines:
        interpreter.tainted |= set(builder.program.buffers)
    if math.prod(grid) > PROGRAMS:
        interpreter.tainted |= {buffer for buffer in builder.program.buffers if buffer.space is MemoryRegion.shared_hbm}


def _in_order(function: Function, names: Names) -> Names:
    """Return the arguments in the order of the parameters: that is the order of the inputs."""
    arguments = function.node.args
    groups = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return {arg.arg: names[arg.arg] for arg in groups if arg is not None and arg.arg in names}


def _collect(interpreter: Interpreter, builder: MeteredBuilder, result: Value) -> None:
    """Enter the returned tensors, as far as they are known."""
    try:
        collect_outputs(_known(interpreter.meter.walked(result)), builder)
    except TooLarge:
        interpreter.record(budget_reached("the result is too large to be looked at"), None, interpreter.base)
    except NkiError as error:
        interpreter.record_all(error.diagnostics, None, interpreter.base)


def _known(value: Value) -> Value:
    """Return a result without its unknown parts."""
    if value is UNKNOWN or isinstance(value, EnumMember):
        return None
    if isinstance(value, tuple | list):
        return tuple(_known(item) for item in value)
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    return value


def _summaries(
    tensors: Mapping[tuple[int, int], NkiTensor], others: Mapping[tuple[int, int], list[NkiTensor]]
) -> dict[tuple[int, int], Variable]:
    """Return the summaries of expressions; equal ones are one object, which is small to send to a server."""
    known: dict[tuple[object, ...], Variable] = {}
    found = {}
    for place, value in tensors.items():
        if place in others:
            found[place] = variable_of("", value, others[place])
            continue
        kind = (value._shape, value._dtype, value._buffer.space)
        if kind not in known:
            known[kind] = variable_of("", value)
        found[place] = known[kind]
    return found
