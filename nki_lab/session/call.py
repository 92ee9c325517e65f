"""The state of one call of a kernel, and its stages from the caller's arrays to results and findings."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, error_of
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.beta1 import Beta1Builder
from nki_lab.kernel_runtime.collectives.core_sync import synchronize_cores
from nki_lab.kernel_runtime.coverage import Coverage, Tracker
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.source_location import is_ours, placed
from nki_lab.kernel_runtime.language.kernel_builder import GridBuilder
from nki_lab.kernel_runtime.language.scheduling import edges_of
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.machine_memory import too_little_memory
from nki_lab.kernel_runtime.numerics.repeating import RepeatableExecutor, can_repeat
from nki_lab.kernel_runtime.path import Path, TripCounts, check_trip_counts, known_path
from nki_lab.kernel_runtime.progress import current_monitor
from nki_lab.kernel_runtime.tensor import NkiTensor, whole
from nki_lab.kernel_runtime.tracer import innermost_site, trace
from nki_lab.own_faults import own_fault
from nki_lab.rules import ProgramFacts, check_program, without_consequences
from nki_lab.session import arrays, plans, programs
from nki_lab.session.arguments import Arguments, Input, Intake, Keywords, bound, used_as_tensor
from nki_lab.session.call_signatures import CallSignatures
from nki_lab.session.guards import Guards
from nki_lab.session.launch import Launch
from nki_lab.session.outcome import INTERRUPTED, Execution, Timings
from nki_lab.session.plans import Signature, change_all, given_back
from nki_lab.session.sources import definition_of, syntax_findings
from nki_lab.session.values import copied_arguments, values_of
from nki_lab.source.callables import traceback_steps
from nki_lab.timeline.timeline import Timeline, timeline


def written_inputs(program: Program, inputs: list[Input]) -> list[Input]:
    """The inputs whose memory some instruction writes."""
    known = _written.get(program)
    if known is None or known[0] != len(program):
        known = _written[program] = (len(program), _written_buffers(program))
    return [item for number, item in {item.tensor._buffer.id: item for item in inputs}.items() if number in known[1]]


def _written_buffers(program: Program) -> set[int]:
    rows = program.variant_column()
    first = np.frombuffer(program.op_access, np.uint32)
    accesses = np.frombuffer(program.access_view, np.uint32)
    seen: set[int] = set()
    for variant in program.variants:
        places = [position for position, is_out in enumerate(variant.outs) if is_out]
        if any(not variant.use.types[variant.names[position]].on_chip for position in places):
            starts = first[rows == variant.id]
            for position in places:
                seen |= {program.views[i].buffer.id for i in distinct(accesses[starts + position]).tolist()}
    return seen


_written: WeakKeyDictionary[Program, tuple[int, set[int]]] = WeakKeyDictionary()
"""The buffers in HBM that a program writes, with the length that it had; later calls may use the program again."""


def refuse_unchangeable(program: Program, written: list[Input]) -> None:
    """Refuse a kernel that changes an argument which cannot be changed, and does not return it."""
    returned = {tensor._buffer.id for tensor in program.outputs}
    for item in written:
        what = arrays.frozen(item.original, item.kind)
        if what and item.tensor._buffer.id not in returned:
            raise arrays.refused(
                item.name,
                f"{what}, and the kernel writes it",
                "return the tensor from the kernel, or pass a copy",
                limit="an argument that the kernel changes is writeable",
            )


# IterationTracker of device loops up to which a run that failed in one of them is laid out to be looked at.
_MOST_DRAWN: Final = 100_000

# What only a mistake of ours raises inside our own code; users' mistakes are diagnosed, or are Type- and ValueErrors.
_OUR_MISTAKES = (AttributeError, LookupError, AssertionError, ArithmeticError, NameError)

_verdicts: WeakKeyDictionary[Program, list[Diagnostic]] = WeakKeyDictionary()
"""The findings of the rules in programs that later calls may use again."""


class Call:
    """The state of one call while it runs."""

    path: Path | None = None
    _key: Hashable | None = None
    _taken: Keywords = MappingProxyType({})
    _is_traced: bool = False
    """Whether all instructions of the kernel are issued."""
    signature: Signature | None = None
    """The call as a key for plans, where one is to be made of it."""

    def __init__(self, launch: Launch, *, timed: bool = False, trip_counts: TripCounts | None = None) -> None:
        self._guards = Guards()
        self.launch = launch
        self.timed = timed
        self.trip_counts = trip_counts or {}
        self.program = launch.program()
        self.builder = launch.builder(self.program)
        self.tracker = Tracker(self.program)
        self.executor: Executor | None = None
        self._prepared: Executor | None = None  # for values to come, until they are computed
        self.inputs: list[Input] = []
        self.kind: arrays.Kind = "numpy"
        self.structure: object = None
        self.outputs: object = None
        self.flat: list[object] = []
        self.findings: list[Diagnostic] = list(launch.notes)
        self.cached = self.computed = False
        self.argument_values: dict[int, arrays.Array] | None = None
        self.timeline: Timeline | None = None
        self.seconds = {"specialize": 0.0, "check": 0.0, "numeric": 0.0}
        self.record = CallSignatures(launch) if launch.records else None
        self.monitor = current_monitor()
        self.monitor.open(launch.name, launch.arch.target)

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Add the time of a stage to its seconds, and report our own mistakes in it."""
        start = time.perf_counter()
        try:
            yield
        except NkiError:
            raise
        except Exception as error:
            raise self._our_fault(error) from error
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    # -- stages ------------------------------------------------------------------------------------------------------

    def run(self, args: Arguments, kwargs: Keywords) -> None:
        self.specialise(args, kwargs, values=True)
        self._foresee()
        if self.timed:
            self.time()
        self.check()
        with self._stage("numeric"):
            self.monitor.begin("numerics", None if self.program.registers else len(self.program))
            written = written_inputs(self.program, self.inputs)
            refuse_unchangeable(self.program, written)
            executor = self._executor_for(self.allocation if self.launch.options.memory == "physical" else None)
            executor.run(final=executor.done == 0)
            self.outputs = arrays.map_leaves(self.structure, self._returned)
            change_all([(item.original, executor.read(item.tensor), item.kind) for item in written])
            self._keep_plan(written)
        if self.timed and self.program.registers:
            self.path = executor.path
            self.time()
        self.monitor.complete()

    def _foresee(self) -> None:
        """Have memory mapped for the values while the program is timed and checked."""
        if self.executor is None and not self.program.registers and self.launch.options.memory != "physical":
            with self._stage("check"):
                self.tracker.finish()  # the checker's, which planning ahead asks for first
            with self._stage("numeric"):
                self._prepared = self._new_executor()
                self._prepared.foresee()

    def _keep_plan(self, written: list[Input]) -> None:
        """Keep what the run has planned, for calls to come."""
        executor = self.executor
        if isinstance(executor, RepeatableExecutor) and self.signature is not None:
            findings = tuple(dict.fromkeys(self.findings))
            common = Execution(program=self.program, outputs=self.structure, diagnostics=findings)
            template = replace(common, values=values_of(None, None, computed=True))
            found = executor.diagnostics
            if plans.keep(self.signature, self._guards, executor, self.inputs, written, self.kind, template):
                self.findings += found
                self.executor = None

    def specialise(self, args: Arguments, kwargs: Keywords, *, values: bool, reuse: bool | None = None) -> None:
        """Make the program; with `reuse`, as runs do, take that of an earlier call, and keep it for later ones."""
        reuse = values if reuse is None else reuse
        self.monitor.begin("specialising")
        begun = time.perf_counter()
        self.builder.site()  # parses the caller's module, which is no matter of values
        start = time.perf_counter()
        self.seconds["specialize"] += start - begun
        shared = math.prod(self.launch.grid) > 1
        intake = Intake(self.builder, shared=shared, dialect=self.launch.dialect, values=values)
        try:
            call = bound(self.launch.function, args, kwargs)
            for name, value in call.arguments.items():
                call.arguments[name] = intake.take(name, value)
        except NkiError as error:
            self._placed(error)
            raise
        self._taken = call.arguments
        self.inputs, self.kind, self.computed = intake.inputs, intake.kind, values
        self.seconds["numeric"] += time.perf_counter() - start
        before = self.seconds["numeric"]
        if self.timed:
            self.argument_values = copied_arguments(self.inputs, self.launch.options.replay_bytes)
        middle = time.perf_counter()
        is_new = self.record is not None and self.record.begin(call.arguments, self.builder)
        if not (reuse and self._recall(call.arguments, again=is_new)):
            self._trace(call.args, call.kwargs, values=values)
            if reuse and not self.program.observed and not self.builder.guessed:
                programs.keep(self._key, self.program, self.structure, self.builder.notes)
        self._is_traced = True
        self.monitor.show(self.program)
        self.seconds["specialize"] += time.perf_counter() - middle - (self.seconds["numeric"] - before)

    def _placed(self, error: NkiError) -> NkiError:
        """Give findings about the call its place; returns the error."""
        site = self.program.sites[self.builder.site()]
        error.diagnostics = tuple(placed(item, site) if site.file else item for item in error.diagnostics)
        return error

    def time(self, *, needed: bool = False) -> None:
        """Work out addresses and times; findings about capacity join the others.

        So does what makes times impossible, an instruction without a model of its cost, unless they are `needed`. The
        times of a run that names registers wait for its values.
        """
        with self._stage("timing"):
            self.monitor.begin("timing", None if self.program.registers else len(self.program))
            try:
                if self.find_path(refuse=True) if needed else self.path is not None or not self.program.registers:
                    self.timeline = timeline(self.program, self.path)
                    self.monitor.show(self.timeline)
                    self.findings += (*self.timeline.diagnostics, *self.timeline.advice)
                else:
                    self.findings += self.allocation.diagnostics
            except NkiError as error:
                if needed:
                    raise
                self.findings += error.diagnostics

    def find_path(self, *, refuse: bool = False) -> bool:
        """Find the way through the device loops that holds for all data; its unknown parts join the findings.

        With `refuse` a loop that does not end is a fault.
        """
        check_trip_counts(self.program, self.trip_counts)
        found = known_path(self.program, self.trip_counts)
        if isinstance(found, Path):
            self.path = found
            return True
        if refuse and any(item.outcome == "fault" for item in found):
            raise error_of(*found)
        self.findings += found
        return False

    @cached_property
    def allocation(self) -> Allocation:
        """The addresses of the program, worked out once."""
        return allocate(self.program) if self.timeline is None else self.timeline.allocation

    def time_failed_run(self, most: float = math.inf) -> None:
        """Addresses and times of a kernel that failed, where they were asked for and can be worked out.

        Those of more than `most` instructions are not: who stopped a run does not wait for its picture.
        """
        if self.timed and self.timeline is None and 0 < len(self.program) <= most:
            with contextlib.suppress(Exception):  # the user gets the fault; a picture of it is extra
                if self.program.registers and self.executor is None:
                    self.find_path()
                elif self.executor is not None:
                    self.path = self.executor.path
                if self.path is None or self.path.trips.sum() <= min(most, _MOST_DRAWN):
                    self.timeline = timeline(self.program, self.path)

    def check(self) -> None:
        with self._stage("check"):
            self.monitor.begin("checking")
            self.findings += syntax_findings(self.launch.function, self.launch.dialect)
            self.findings += self.builder.notes
            coverage = self.tracker.finish()
            self.findings += (*coverage.diagnostics, *self._program_findings(coverage))
            self.findings = without_consequences(self.findings)
        rejected = [item for item in self.diagnostics() if item.outcome == "reject"]
        if rejected and self.launch.options.strict:
            raise error_of(*rejected)

    def _program_findings(self, coverage: Coverage) -> list[Diagnostic]:
        """Return the findings of the rules in the program; in that of an earlier call, the findings of then."""
        known = _verdicts.get(self.program) if self.cached else None
        if known is not None:
            return known
        line = self.timeline
        laid_out = line is not None and line.program is not self.program
        facts = ProgramFacts(
            program=self.program,
            path=self.path,
            known_coverage=coverage,
            known_allocation=self.__dict__.get("allocation") if line is None else line.allocation,
            known_schedule=None if line is None or laid_out or line.compiled is not None else line.schedule,
        )
        known = check_program(facts)
        if not self.program.registers:  # the way through device loops is each call's own
            _verdicts[self.program] = known
        return known

    # -- specialisation ----------------------------------------------------------------------------------------------

    def _recall(self, taken: Keywords, *, again: bool) -> bool:
        """Take over the program of an earlier call that cannot differ from this one's, unless it is made `again`."""
        self._key = programs.key_of(self.launch, taken, self._guards)
        known = None if again else programs.recall(self._key)
        if known is None:
            return False
        self.cached = True
        self.program, self.structure = known.program, known.structure
        self.tracker = Tracker(self.program)
        self.builder.notes = list(known.notes)
        for item, buffer in zip(self.inputs, self.program.inputs, strict=True):
            item.tensor = whole(buffer)
        return True

    def _trace(self, args: Arguments, kwargs: dict[str, object], *, values: bool) -> None:
        builder = self.builder
        builder.reader = self._observe if values else None
        self.monitor.show(self.program)
        try:
            for number, ids in enumerate(itertools.product(*(range(size) for size in self.launch.grid))):
                if isinstance(builder, (GridBuilder, Beta1Builder)):
                    builder.start(self.launch.grid, ids)
                structure = trace(self.launch.function, args, kwargs, builder)
                if number == 0:
                    self.structure = structure
        except NkiError as error:
            cause = error.__cause__
            if isinstance(cause, _OUR_MISTAKES) and _raised_by_us(cause):
                raise self._our_fault(cause) from cause
            if (misused := used_as_tensor(error, self._taken)) is not None:
                operand = misused.diagnostics[0].operand
                builder.notes = [item for item in builder.notes if item.operand != operand]  # about the same list
                raise self._placed(misused) from None
            raise
        synchronize_cores(self.program)
        edges, missing = edges_of(self.program, self.launch.schedule)
        self.program.user_edges += edges
        for item in missing:
            builder.note(item, builder.site_of(definition_of(self.launch.function)))

    def _observe(self, tensor: NkiTensor) -> arrays.Array:
        """Return the values that something in the kernel looks at: everything issued so far is executed first."""
        self.program.observed = True
        with self._stage("numeric"):
            executor = self._executor_for()
            executor.run(final=False)
            return executor.read(tensor)

    # -- values ------------------------------------------------------------------------------------------------------

    def _executor_for(self, allocation: Allocation | None = None) -> Executor:
        """Return the executor of the run; with an `allocation` that of the whole program, at its addresses."""
        if self.executor is None or allocation is not None:
            self.executor, self._prepared = self._prepared or self._new_executor(allocation), None
        return self.executor

    def _new_executor(self, allocation: Allocation | None = None) -> Executor:
        values = {item.tensor._buffer.id: item.values for item in self.inputs if item.values is not None}
        planned = self.signature is not None and self._key is not None and self._is_traced
        if planned and can_repeat(self.program):
            return RepeatableExecutor(self.program, values, self.tracker)
        return Executor(self.program, values, self.tracker, allocation)

    def _returned(self, leaf: object) -> object:
        """Return a part of the kernel's result, a tensor as an array of the caller's library."""
        return given_back(self._executor_for(), leaf, self.kind, self.flat)

    # -- the end -----------------------------------------------------------------------------------------------------

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the findings so far, each once."""
        return tuple(dict.fromkeys((*self.findings, *(self.executor.diagnostics if self.executor else ()))))

    def result(self, error: NkiError | None = None) -> Execution:
        common = Execution(
            program=self.program,
            diagnostics=self.diagnostics(),
            timings=Timings(**self.seconds),
            cached=self.cached,
            timeline=self.timeline,
            values=values_of(self.timeline, self.argument_values, computed=self.computed),
        )
        if error is None:
            if self.record is not None:
                self.record.end()
            return replace(common, outputs=self.outputs, flat=tuple(self.flat))
        found = dict.fromkeys((*common.diagnostics, *self.builder.notes, *error.diagnostics))
        if error.diagnostics[0].code == INTERRUPTED:
            return replace(common, diagnostics=tuple(found), error=error, cancelled=self._executed())
        fault = self._failed(error)
        at = self._last() if fault < 0 else fault
        return replace(common, diagnostics=tuple(found), error=error, fault=at, fault_after=fault < 0 <= at)

    def _failed(self, error: NkiError) -> int:
        """The issued instruction that the error is about; -1: it came between or after the instructions issued."""
        if self.executor is not None and self.executor.failed >= 0:
            return self._last() if self._is_laid_out() else self.executor.failed
        if not self._is_traced or self._is_laid_out():
            return -1
        # The whole kernel was issued, and then refused by a rule.
        places = {(item.file, item.line) for item in error.diagnostics if item.line}
        sites = [number for number, site in enumerate(self.program.sites) if (site.file, site.line) in places]
        found = np.flatnonzero(np.isin(np.frombuffer(self.program.op_site, np.uint32), sites))
        return int(found[0]) if len(found) else -1

    def _executed(self) -> int:
        """Return how many instructions of the recording were executed, or issued, when the user stopped the run."""
        if not self._is_traced or self._is_laid_out():
            return self._last() + 1
        return 0 if self.executor is None else max(0, self.executor.stopped)

    def _last(self) -> int:
        """The last instruction of the recording; -1: none was issued."""
        return len(self.program if self.timeline is None else self.timeline.program) - 1

    def _is_laid_out(self) -> bool:
        """Whether the recording has the iterations of device loops one by one; it ends where the run did."""
        return self.timeline is not None and self.timeline.program is not self.program

    def close(self) -> None:
        """Release the values: tensors that the kernel left lying around keep the builder alive."""
        self.builder.reader = None
        self.monitor.leave()
        if self.executor is not None:
            self.findings += self.executor.diagnostics
            self.executor.close()
            self.executor = None
        if self._prepared is not None:
            self._prepared.close()

    def interrupted(self) -> NkiError:
        """Return what says that the user stopped the run, and when."""
        count = len(self.program)
        done = f"{count:,} instructions were issued"
        if self.executor is not None and self._is_traced and not self.program.registers:
            done = f"{self._executed():,} of {count:,} instructions" if count else done
        message = f"{self.launch.name} was cancelled after {done}"
        return coded_error(INTERRUPTED, message, help="results of a cancelled run are not complete")

    def _our_fault(self, error: Exception) -> NkiError:
        if isinstance(error, MemoryError):
            return too_little_memory(f"the memory of this computer ended: {error}", self.program.buffers)
        item = own_fault(
            f"nki_lab failed with {type(error).__name__}: {error}",
            limit="a kernel runs, or a diagnostic says why it does not",
        )
        site = innermost_site(error.__traceback__)
        if site is None and self.executor is not None and len(self.program):
            site = self.program.sites[self.program.op_site[min(self.executor.done, len(self.program) - 1)]]
        return error_of(placed(item, site) if site is not None else item)


def _raised_by_us(error: BaseException) -> bool:
    """Whether the innermost frame of the traceback is nki_lab's. Whoever asks for an attribute has asked for it."""
    steps = [step for step in traceback_steps(error) if step.tb_frame.f_code.co_name != "__getattr__"]
    return bool(steps) and is_ours(steps[-1].tb_frame)
