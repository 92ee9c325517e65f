"""The state of one call of a kernel, and its stages from the caller's arrays to results and findings."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, diagnose, error_of
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.beta1 import Beta1Builder
from nki_lab.kernel_runtime.collectives.core_sync import synchronize_cores
from nki_lab.kernel_runtime.coverage import Coverage, Tracker
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.issue.user_frames import is_ours
from nki_lab.kernel_runtime.language.kernel_builder import GridBuilder
from nki_lab.kernel_runtime.language.scheduling import edges_of
from nki_lab.kernel_runtime.numerics.machine import Machine
from nki_lab.kernel_runtime.path import Path, TripCounts, check_trip_counts, known_path
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.kernel_runtime.tracer import innermost_site, trace
from nki_lab.rules import ProgramFacts, check_program, without_consequences
from nki_lab.session import arrays, programs
from nki_lab.session.arguments import Input, Intake, bound
from nki_lab.session.changes import refuse_unchangeable, written_inputs
from nki_lab.session.launch import Launch
from nki_lab.session.outcome import INTERRUPTED, Execution, Timings
from nki_lab.session.sources import definition_of, syntax_findings
from nki_lab.session.timeline import Timeline, timeline
from nki_lab.session.values import kept_arguments, values_of

# Passes of device loops up to which a run that failed in one of them is laid out to be looked at.
_MOST_SHOWN: Final = 100_000

# What only a mistake of ours raises inside our own code; users' mistakes are diagnosed, or are Type- and ValueErrors.
_OUR_MISTAKES = (AttributeError, LookupError, AssertionError, ArithmeticError, NameError)

_verdicts: WeakKeyDictionary[Program, list[Diagnostic]] = WeakKeyDictionary()
"""What the rules found in programs that later calls may find again."""


class Call:
    """The state of one call while it runs."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.function = launch.function
        self.options = launch.options
        self.grid = launch.grid
        self.arch = launch.arch
        self.program = launch.program()
        self.builder = launch.builder(self.program)
        self.tracker = Tracker(self.program)
        self.machine: Machine | None = None
        self.inputs: list[Input] = []
        self.structure: Any = None
        self.outputs: Any = None
        self.flat: tuple[Any, ...] = ()
        self.kind: arrays.Kind = "numpy"
        self.found: list[Diagnostic] = list(launch.notes)
        self.cached = False
        self.timed = self.valued = False
        self.kept: dict[int, Any] | None = None
        self.trip_counts: TripCounts = {}
        self.timeline: Timeline | None = None
        self.seconds = {"specialize": 0.0, "check": 0.0, "numeric": 0.0}

    # -- stages ------------------------------------------------------------------------------------------------------

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.specialise(args, kwargs, values=True)
        if self.timed:
            self.time()
        self.check()
        start = time.perf_counter()
        written = written_inputs(self.program, self.inputs)
        try:
            refuse_unchangeable(self.program, written)
            machine = self._machine() if self.options.memory == "virtual" else self._physical_machine()
            machine.run(final=machine.done == 0)
            self._read_outputs(machine)
            for item in written:
                arrays.changed(item.original, machine.read(item.tensor), item.kind)
        except NkiError:
            raise
        except Exception as error:
            raise self._our_fault(error) from error
        finally:
            self.seconds["numeric"] += time.perf_counter() - start
        if self.timed and self.program.registers:
            self.path = machine.path
            self.time_along(self.path)

    def time_along(self, path: Path) -> None:
        """The times of a program whose way through its loops is known now that its values are."""
        start = time.perf_counter()
        try:
            self.timeline = timeline(self.program, path)
            self.found.extend((*self.timeline.schedule.diagnostics, *self.timeline.advice))
        except NkiError as error:
            self.found.extend(error.diagnostics)
        except Exception as error:
            raise self._our_fault(error) from error
        finally:
            self.seconds["timing"] = self.seconds.get("timing", 0.0) + time.perf_counter() - start

    def specialise(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, values: bool) -> None:
        start = time.perf_counter()
        intake = Intake(self.builder, shared=math.prod(self.grid) > 1, dialect=self.launch.dialect)
        try:
            call = bound(self.function, args, kwargs)
            for name, value in call.arguments.items():
                call.arguments[name] = intake.take(name, value)
        except NkiError as error:
            site = self.program.sites[self.builder.site()]
            error.diagnostics = tuple(placed(item, site) if site.file else item for item in error.diagnostics)
            raise
        self.inputs, self.kind = intake.inputs, intake.kind
        self.seconds["numeric"] += time.perf_counter() - start
        taken = self.seconds["numeric"]
        self.valued = values
        if self.timed:
            self.kept = kept_arguments(self.inputs, self.options.replay_bytes)
        middle = time.perf_counter()
        if not (values and self._recall(call.arguments)):
            self._trace(call.args, call.kwargs, values=values)
        flushed = self.seconds["numeric"] - taken
        self.seconds["specialize"] += time.perf_counter() - middle - flushed

    def time(self, *, needed: bool = False) -> None:
        """Addresses and times; what they tell about capacity joins the findings.

        So does what makes them impossible, an instruction without a model of its cost, unless they are `needed`. The
        times of a run that names registers wait for its values.
        """
        start = time.perf_counter()
        try:
            if self.find_path(refuse=True) if needed else not self.program.registers:
                self.timeline = timeline(self.program, self.path)
                self.found.extend((*self.timeline.diagnostics, *self.timeline.advice))
            else:
                self.found.extend(self.allocation.diagnostics)
        except NkiError as error:
            if needed:
                raise
            self.found.extend(error.diagnostics)
        except Exception as error:
            raise self._our_fault(error) from error
        finally:
            self.seconds["timing"] = self.seconds.get("timing", 0.0) + time.perf_counter() - start

    def find_path(self, *, refuse: bool = False) -> bool:
        """Find the way through the device loops that holds for all data; what is not known of it joins the findings.

        With `refuse` a loop that does not end is a fault.
        """
        check_trip_counts(self.program, self.trip_counts)
        found = known_path(self.program, self.trip_counts)
        if isinstance(found, Path):
            self.path = found
            return True
        if refuse and any(item.outcome == "fault" for item in found):
            raise error_of(*found)
        self.found.extend(found)
        return False

    path: Path | None = None

    @cached_property
    def allocation(self) -> Allocation:
        """The addresses of the program, worked out once."""
        return allocate(self.program) if self.timeline is None else self.timeline.allocation

    def time_what_there_is(self) -> None:
        """Addresses and times of a kernel that failed, where they were asked for and can be worked out."""
        if self.timed and self.timeline is None and len(self.program):
            with contextlib.suppress(Exception):  # the fault is what the user is told, and a picture of it is extra
                if self.program.registers and self.machine is None:
                    self.find_path()
                elif self.machine is not None:
                    self.path = self.machine.path
                if self.path is None or self.path.trips.sum() <= _MOST_SHOWN:
                    self.timeline = timeline(self.program, self.path)

    def check(self) -> None:
        start = time.perf_counter()
        try:
            self.found.extend(syntax_findings(self.function, self.launch.dialect))
            self.found.extend(self.builder.notes)
            coverage = self.tracker.finish()
            self.found.extend(coverage.diagnostics)
            self.found.extend(self._judged(coverage))
            self.found = without_consequences(self.found)
        except Exception as error:
            raise self._our_fault(error) from error
        finally:
            self.seconds["check"] += time.perf_counter() - start
        rejected = [item for item in self.diagnostics() if item.outcome == "reject"]
        if rejected and self.options.strict:
            raise error_of(*rejected)

    def _judged(self, coverage: Coverage) -> list[Diagnostic]:
        """What the rules find in the program; in that of an earlier call, what they found then."""
        known = _verdicts.get(self.program) if self.cached else None
        if known is None:
            known = check_program(self._facts(coverage))
            if not self.program.registers:  # the way through device loops is each call's own
                _verdicts[self.program] = known
        return known

    def _facts(self, coverage: Coverage) -> ProgramFacts:
        """The program with what is known about it, for the rules that judge it."""
        line = self.timeline
        laid_out = line is not None and line.program is not self.program
        return ProgramFacts(
            program=self.program,
            path=self.path,
            known_coverage=coverage,
            known_allocation=self.__dict__.get("allocation") if line is None else line.allocation,
            known_schedule=None if line is None or laid_out else line.schedule,
        )

    # -- specialisation ----------------------------------------------------------------------------------------------

    def _recall(self, taken: Mapping[str, Any]) -> bool:
        """Take over the program of an earlier call that cannot differ from this one's."""
        self._key = programs.key_of(self.launch, taken)
        known = programs.recall(self._key)
        if known is None:
            return False
        self.cached = True
        self.program, self.structure = known.program, known.structure
        self.tracker = Tracker(self.program)
        self.builder.notes = list(known.notes)
        for item, buffer in zip(self.inputs, self.program.inputs, strict=True):
            item.tensor = programs.whole_of(buffer)
        return True

    _key: Any = None

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, values: bool) -> None:
        builder = self.builder
        builder.reader = self._observe if values else None
        try:
            for number, ids in enumerate(itertools.product(*(range(size) for size in self.grid))):
                if isinstance(builder, (GridBuilder, Beta1Builder)):
                    builder.start(self.grid, ids)
                structure = trace(self.function, args, kwargs, builder)
                if number == 0:
                    self.structure = structure
        except NkiError as error:
            cause = error.__cause__
            if isinstance(cause, _OUR_MISTAKES) and _raised_by_us(cause):
                raise self._our_fault(cause) from cause
            raise
        synchronize_cores(self.program)
        self._obey()
        if values and not self.program.observed:
            programs.keep(self._key, self.program, self.structure, builder.notes)

    def _obey(self) -> None:
        """Enter the edges of `with_schedule` into the program; what they name and is not there is noted."""
        edges, missing = edges_of(self.program, self.launch.schedule)
        self.program.user_edges += edges
        for item in missing:
            self.builder.note(item, self.builder.site_of(definition_of(self.function)))

    def _observe(self, tensor: NkiTensor) -> np.ndarray[Any, Any]:
        """The values that something in the kernel looks at: everything issued so far is executed first."""
        start = time.perf_counter()
        self.program.observed = True
        try:
            machine = self._machine()
            machine.run(final=False)
            return machine.read(tensor)
        except NkiError:
            raise
        except Exception as error:
            raise self._our_fault(error) from error
        finally:
            self.seconds["numeric"] += time.perf_counter() - start

    # -- values ------------------------------------------------------------------------------------------------------

    def _machine(self) -> Machine:
        if self.machine is None:
            values = {item.tensor._buffer.id: item.values for item in self.inputs if item.values is not None}
            self.machine = Machine(self.program, values, self.tracker)
        return self.machine

    def _physical_machine(self) -> Machine:
        """A machine with every tensor at its address, for the whole program from its start."""
        values = {item.tensor._buffer.id: item.values for item in self.inputs if item.values is not None}
        self.machine = Machine(self.program, values, self.tracker, self.allocation)
        return self.machine

    def _read_outputs(self, machine: Machine) -> None:
        flat: list[np.ndarray[Any, Any]] = []

        def read(leaf: Any) -> Any:
            if not isinstance(leaf, NkiTensor):
                return leaf
            values = machine.hand_out(leaf)
            flat.append(values.view(np.dtype(leaf._dtype.host)) if leaf._dtype.kind == "packed" else values)
            return flat[-1]

        self.outputs = arrays.map_leaves(self.structure, read)
        self.flat = tuple(flat)

    # -- the end -----------------------------------------------------------------------------------------------------

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was found so far, each finding once."""
        late = self.machine.diagnostics if self.machine is not None else ()
        return tuple(dict.fromkeys((*self.found, *late)))

    def result(self, error: NkiError | None) -> Execution:
        found = self.diagnostics()
        if error is not None:
            found = tuple(dict.fromkeys((*found, *self.builder.notes, *error.diagnostics)))
        return Execution(
            program=self.program,
            arch=self.arch,
            outputs=None if error else self.outputs,
            flat=() if error else self.flat,
            diagnostics=found,
            timings=Timings(**self.seconds),
            kind=self.kind,
            error=error,
            cached=self.cached,
            timeline=self.timeline,
            fault=-1 if error is None else self._last(),
            values=values_of(self.timeline, self.kept, computed=self.valued),
        )

    def _last(self) -> int:
        """The instruction whose values could not be computed, else the last one that was issued; -1: none."""
        if self.timeline is not None and self.timeline.program is not self.program:
            return len(self.timeline.program) - 1  # it ends where the run did
        failed = -1 if self.machine is None else self.machine.failed
        return failed if failed >= 0 else len(self.program) - 1

    def close(self) -> None:
        """Let go of values: tensors that the kernel left lying around keep the builder alive."""
        self.builder.reader = None
        if self.machine is not None:
            self.machine.close()
        self.machine = None if self.machine is None else _Spent(self.machine.diagnostics)  # type: ignore[assignment]

    def interrupted(self) -> NkiError:
        issued = f"{len(self.program)} instructions were issued"
        return error_of(diagnose(INTERRUPTED, f"{self.launch.name} was interrupted after {issued}",
                                 help="results of an interrupted run are not complete"))  # fmt: skip

    def _our_fault(self, error: Exception) -> NkiError:
        item = diagnose(
            "NKI901",
            f"nki_lab failed with {type(error).__name__}: {error}",
            limit="a kernel runs, or a diagnostic says why it does not",
            help="please report the kernel together with this message",
        )
        site = innermost_site(error.__traceback__)
        if site is None and self.machine is not None and len(self.program):
            index = min(self.machine.done, len(self.program) - 1)
            site = self.program.sites[self.program.op_site[index]]
        return error_of(placed(item, site) if site is not None else item)


@dataclass(slots=True)
class _Spent:
    """What is kept of a machine after the run."""

    diagnostics: list[Diagnostic]


def _raised_by_us(error: BaseException) -> bool:
    """Whether the innermost frame of the traceback is nki_lab's."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and is_ours(traceback.tb_frame)
