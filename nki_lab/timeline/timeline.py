"""A program with its addresses, queues and times, and the recording that views read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.backend import MEMORY_NOTES, REORDERED, REPEATS_NOTE, Compiled, compiled, without_order
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import changed, compiler_steps
from nki_lab.kernel_runtime.path import Path, executed
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns
from nki_lab.kernel_runtime.schedule import Schedule, schedule
from nki_lab.kernel_runtime.timing import Timing, makespan_of, makespans_without, walk
from nki_lab.kernel_runtime.vocabulary import LOOP_KINDS, STALL_REASONS
from nki_lab.rules import TimedFacts, check_timed
from nki_lab.rules.timed_facts import WORTHWHILE
from nki_lab.source_files import shown_names
from nki_lab.timeline.interval import Case, case_of, figures_of, interval
from nki_lab.timeline.recorded_rows import RecordedRows, recorded_rows, tables_of_program
from nki_lab.timeline.recorded_tables import recorded_tables
from nki_lab.timeline.summary import Summary, at_peak, busy_ns, peak_use, summarise

SPILL: Final = "NKI318"
_PICOSECONDS: Final = 1000  # in a nanosecond
_MORE_MEMORY: Final = 16  # times the SBUF of a chip on which tiles do not wait for memory


@dataclass(frozen=True)
class Timeline:
    """The effect of a program on memory and time.

    `program` has a row for each instruction that values are computed for: `source`, or its way through device loops.
    The chip executes the rows of `chip`, which are others where the compiler model changed them (`compiled`);
    `schedule`, `timing` and `chip_allocation` are about these, `allocation` is about `program`.
    """

    program: Program
    allocation: Allocation
    schedule: Schedule
    timing: Timing
    source: Program
    compiled: Compiled | None = None
    compiled_allocation: Allocation | None = None

    @property
    def chip(self) -> Program:
        """The rows that the chip executes."""
        return self.program if self.compiled is None else self.compiled.program

    @property
    def chip_allocation(self) -> Allocation:
        """The addresses of their tensors."""
        return self.allocation if self.compiled_allocation is None else self.compiled_allocation

    @cached_property
    def recorded(self) -> RecordedRows | None:
        """How the rows of the recording come from those of the chip; None where they are the same."""
        return None if self.compiled is None else recorded_rows(self.program, self.compiled)

    @cached_property
    def start(self) -> Array:
        """When each recorded row begins, in picoseconds."""
        timing, found = self.timing, self.recorded
        if found is None:
            return timing.start
        return np.where(found.executes, timing.start[found.of], (timing.start + timing.duration)[found.of])

    @cached_property
    def ready(self) -> Array:
        """When the result of each recorded row is visible, in picoseconds."""
        return self.timing.ready if self.recorded is None else self.timing.ready[self.recorded.of]

    @cached_property
    def makespan_without_model(self) -> int:
        """The time of the program as it stands, in picoseconds."""
        if self.compiled is None:
            return self.timing.makespan
        queues = schedule(self.program, self.allocation)
        return makespan_of(self.program, queues, self.allocation)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Findings about capacity, addresses and the user's schedule."""
        notes = {} if self.compiled is None else self.compiled.notes
        said = "; ".join(f"{count:,} {what}" for what, count in notes.items() if what in MEMORY_NOTES)
        found = self.allocation.diagnostics
        if said:
            found = tuple(
                replace(item, note=f"{item.note}; {said}" if item.note else said) if item.code == SPILL else item
                for item in found
            )
        return (*found, *self.schedule.diagnostics)

    @cached_property
    def advice(self) -> tuple[Diagnostic, ...]:
        """Findings that say how the program could be faster, and by how much; none where memory has no room for it."""
        if any(item.severity == "error" for item in self.allocation.diagnostics):
            return ()
        return tuple(
            check_timed(
                TimedFacts(
                    program=self.chip,
                    allocation=self.chip_allocation,
                    schedule=self.schedule,
                    timing=self.timing,
                    written=self._with_repeats if self._leaves_repeats_out else None,
                    roomy=None if self.compiled is None else self._in_more_memory,
                    spills=self._is_spilled,
                    inserted=None if self.compiled is None else self.compiled.source < 0,
                    quotients=self._quotients,
                )
            )
        )

    @property
    def _leaves_repeats_out(self) -> bool:
        """Whether the compiler model leaves out a worthwhile part of the rows."""
        left_out = 0 if self.compiled is None else self.compiled.notes.get(REPEATS_NOTE, 0)
        return left_out > WORTHWHILE * len(self.program)

    @property
    def _is_spilled(self) -> bool:
        """Whether the compiler model loads tiles again, or saves them, for want of memory."""
        return self.compiled is not None and any(name in self.compiled.notes for name in MEMORY_NOTES)

    def _without_step(self, step: str) -> Program:
        """Return the program after all steps of the compiler model but one."""
        steps = [name for name in compiler_steps(self.program.options) if name != step]
        made = compiled(self.program, steps)
        return self.program if made is None else made.program

    def _in_more_memory(self) -> tuple[Program, Allocation]:
        """Return the program with its addresses as the compiler model makes it for a chip with more SBUF."""
        program, arch = copy(self.program), self.program.arch
        program.arch = replace(
            arch,
            sbuf_partition_bytes=_MORE_MEMORY * arch.sbuf_partition_bytes,
            sbuf_usable_bytes=_MORE_MEMORY * arch.sbuf_usable_bytes,
        )
        made = compiled(program, compiler_steps(program.options))
        chip = program if made is None else made.program
        return chip, allocate(chip)

    def _with_repeats(self) -> TimedFacts:
        """Time the program without what the compiler model does about repeats."""
        program = self._without_step("repeats")
        addresses = allocate(program)
        queues = schedule(program, addresses)
        timing = walk(program, queues, program.options, addresses)
        return TimedFacts(
            program=program, allocation=addresses, schedule=queues, timing=timing, quotients=self._quotients
        )

    @property
    def _quotients(self) -> tuple[float, float]:
        """The bounds of the measured time over the predicted one."""
        found = interval(self.case)
        return found.low, found.high

    @cached_property
    def busy(self) -> dict[str, float]:
        """Nanoseconds in which each engine executes, summed over cores."""
        return busy_ns(self.chip, self.schedule, self.timing)

    @cached_property
    def case(self) -> Case:
        """The class of the run and what is unknown about it: the interval of the time depends on them."""
        return case_of(
            self.program,
            self.chip,
            (*self.allocation.diagnostics, *self.chip_allocation.diagnostics),
            {} if self.compiled is None else self.compiled.notes,
            busy=self.busy,
            read_bytes=summarise(self.chip).get("hbm_read_bytes", 0),
        )

    @cached_property
    def summary(self) -> Summary:
        """The counts of the program with its times, shares and peaks; times in nanoseconds."""
        program, timing, arch = self.chip, self.timing, self.program.arch
        counts = summarise(program)
        nanoseconds, busy = timing.makespan / _PICOSECONDS, self.busy
        products, transposes = at_peak(program)
        available = nanoseconds * program.cores
        traffic = hbm_bytes_per_ns(arch, program.cores) * nanoseconds
        in_sbuf, in_psum = peak_use(program, timing, self.chip_allocation)
        return Summary(
            counts,
            makespan_ns=nanoseconds,
            **figures_of(self.case, nanoseconds),
            engine_busy_ns=busy,
            critical_path_ns=int(timing.path.work.sum()) / _PICOSECONDS,
            critical_wait_ns={
                STALL_REASONS[reason]: wait / _PICOSECONDS for reason, wait in sorted(timing.path.waits.items())
            },
            stall_ns={name: total / _PICOSECONDS for name, total in sorted(timing.stalls.items())},
            slowed_ns={name: total / _PICOSECONDS for name, total in sorted(timing.slowed.items())},
            launch_ns=arch.before_ns(program.cores) if program.options.launch_overhead else 0.0,
            sbuf_peak_bytes_per_partition=int(self.chip_allocation.sbuf_peak),
            psum_peak_bytes_per_partition=int(self.chip_allocation.psum_peak),
            sbuf_occupied_bytes_per_partition=in_sbuf,
            psum_occupied_bytes_per_partition=in_psum,
            mfu=products / available if available else 0.0,
            hfu=(products + transposes) / available if available else 0.0,
            mbu=(counts["hbm_read_bytes"] + counts["hbm_write_bytes"]) / traffic if traffic else 0.0,
            confidence=dict(timing.trust),
            **_model_account(self),
            later={"bottlenecks": lambda: self.bottlenecks},
        )

    @cached_property
    def bottlenecks(self) -> dict[str, float]:
        """The nanoseconds of the program without one part of the machine each, the part that costs most first.

        `makespans_without` says what the names mean. Each is a simulation, so that they take some times as long as the
        profile itself.
        """
        found = makespans_without(self.chip, self.schedule, self.chip_allocation)
        return {name: time / _PICOSECONDS for name, time in sorted(found.items(), key=lambda item: item[1])}

    def record(
        self,
        diagnostics: Iterable[Diagnostic] = (),
        fault: int = -1,
        *,
        fault_after: bool = False,
        cancelled: int = -1,
    ) -> Recording:
        """Return the run as tables, with the `diagnostics` of the session.

        `fault` is the instruction at which the run failed, -1: it did not; with `fault_after` the last one before it.
        `cancelled` is the number of instructions that were executed when the user stopped the run, -1: nobody did.
        """
        # The time that this computer took is no part of a recording: equal runs are equal recordings.
        names = shown_names(dict.fromkeys(site.file for site in self.program.sites))
        session: dict[str, object] = {
            "kernel": self.program.name,
            "options": changed(self.program.options),
            "diagnostics": [_renamed(item.as_dict(), names) for item in diagnostics],
        }
        failed = {} if fault < 0 else {"fault": fault, **({"fault_after": True} if fault_after else {})}
        stopped = {} if cancelled < 0 else {"cancelled": cancelled, "cancelled_ps": self.executed_until(cancelled)}
        summary = {**self.summary, **session, **failed, **stopped}
        tables = self.__dict__.pop("_early", None) or self._tables()
        return Recording(tables, summary, self.timing.makespan)

    def record_early(self) -> Recording:
        """Return the run as tables before it is over; the next `record` finds half of its work done."""
        tables = self._tables()
        made = Recording(tables, {**self.summary, "kernel": self.program.name}, self.timing.makespan)
        self.__dict__["_early"] = tables
        return made

    def _tables(self) -> dict[str, Any]:
        tables: dict[str, Any] = recorded_tables(self.chip, self.schedule, self.timing, self.chip_allocation)
        on_device = {region.site for region in self.source.regions}
        kinds = [LOOP_KINDS.index("device" if item.site in on_device else "python") for item in self.chip.iterations]
        tables["iterations"]["kind"] = kinds
        if self.recorded is None:
            return tables
        return tables_of_program(self.recorded, self.program, self.chip, self.schedule, self.timing, tables)

    def executed_until(self, done: int) -> int:
        """Return the picoseconds until which only the first `done` instructions begin."""
        if done >= len(self.start):
            return self.timing.makespan
        return int(self._earliest_from[done])

    @cached_property
    def _earliest_from(self) -> Array:
        """The earliest start of each instruction and all those after it in the program."""
        return np.minimum.accumulate(self.start[::-1])[::-1]


def _renamed(item: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A diagnostic as data with its files, and those of what it refers to, by the names to show for them."""
    related = [{**one, "file": names.get(one["file"], one["file"])} for one in item["related"]]
    return {**item, "file": names.get(item["file"], item["file"]), "related": related}


def _timed(rows: Program, allocation: Allocation, program: Program, made: Compiled | None) -> Timeline:
    """Return the timeline of the rows that the compiler model made of those of the program, or of these."""
    chip, addresses = (rows, allocation) if made is None else (made.program, allocate(made.program))
    queues = schedule(chip, addresses)
    timing = walk(chip, queues, program.options, addresses, shown=True)
    return Timeline(rows, allocation, queues, timing, program, made, None if made is None else addresses)


def made(program: Program, path: Path | None = None) -> Timeline:
    """Return the timeline of a complete program, which nothing keeps; `timeline` keeps those of the last programs."""
    allocation = allocate(program)
    rows = program if path is None else executed(program, path)
    steps = compiler_steps(program.options)
    found = _timed(rows, allocation, program, compiled(rows, steps))
    if found.compiled is not None and REORDERED in found.compiled.notes:
        # The compiler model orders by a simpler clock: it is the walk that says whether that was worth it.
        in_order = _timed(rows, allocation, program, compiled(rows, without_order(steps)))
        found = min(in_order, found, key=lambda line: line.timing.makespan)
    return found


_KEPT: Final = 16
_recent: OrderedDict[tuple[int, object], Timeline] = OrderedDict()


def timeline(program: Program, path: Path | None = None) -> Timeline:
    """Allocate, schedule and time a complete program; the timelines of the last programs are kept.

    A program that names registers takes the way `path` through its device loops.
    """
    key = (id(program), None if path is None else path.key())
    known = _recent.get(key)
    if known is None or known.source is not program:
        known = _recent[key] = made(program, path)
        while len(_recent) > _KEPT:
            _recent.popitem(last=False)
    return known


def _model_account(line: Timeline) -> dict[str, Any]:
    """Return what the compiler model did, and the time without it; nothing where it did nothing."""
    if line.compiled is None:
        return {}
    return {
        "compiler_model": dict(line.compiled.notes),
        "makespan_without_compiler_model_ns": line.makespan_without_model / _PICOSECONDS,
    }
