"""A profile that an earlier process made: its recording is at hand, its program is made when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from nki_lab import session
from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.result.outcome import Run
from nki_lab.result.recorded import recorded_summary
from nki_lab.session import NotRecorded, Timings
from nki_lab.timeline.summary import Summary
from nki_lab.timeline.timeline import Timeline

SECONDS: float = 0.5
"""Profiles that took less are not kept on disk."""


class CachedProfile(Run):
    """A profile from the cache on disk. `cached` is true; `timings` are those of looking it up."""

    def __init__(
        self,
        recording: Recording,
        name: str,
        arguments: tuple[object, ...],
        arch: Arch,
        remake: Callable[[Arch], session.Execution],
    ) -> None:
        self.name = name
        self.output = None
        self.outputs = ()
        found = recording.summary.get("diagnostics")
        self.diagnostics = tuple(Diagnostic.from_dict(item) for item in found) if isinstance(found, list) else ()
        self.timings = Timings(timing=0.0)
        self.target = arch.target
        self.error = None
        self._recording = recording
        self._arguments = arguments
        self._arch = arch
        self._fault, self._fault_after, self._cancelled = -1, False, -1
        self._values = NotRecorded("values not recorded: a profile computes none")
        self._on_target = remake
        self._references = {}
        self._pins = {}

    @cached_property
    def _execution(self) -> session.Execution:
        assert self._on_target is not None
        return self._on_target(self._arch)

    @cached_property
    def program(self) -> Program:  # type: ignore[override]
        """The specialised kernel, made now."""
        return self._execution.program

    @property
    def _timeline(self) -> Timeline | None:  # type: ignore[override]
        return self._execution.timeline

    @property
    def has_recording(self) -> bool:
        """True: only profiles with times are kept."""
        return True

    @property
    def recording(self) -> Recording:
        """The instructions of the profile with lanes and times, read from the cache."""
        return self._recording

    @cached_property
    def summary(self) -> Summary:
        """Counts, times and shares of the profile, by name; times in nanoseconds."""
        known = recorded_summary(self._recording)
        return Summary(known, later={"bottlenecks": self._bottlenecks})

    def _bottlenecks(self) -> object:
        """Return the makespans of machines that lack one part of the target, which are not kept."""
        timeline = self._timeline
        assert timeline is not None
        return timeline.summary["bottlenecks"]
