"""The runs of all ranks of one launch, and their recording together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

from nki_lab import quantities
from nki_lab.diagnostic import Diagnostic, coded_error
from nki_lab.export import formatting
from nki_lab.export.findings import by_severity, counts
from nki_lab.kernel_runtime.protocols import ValueSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.result.outcome import Run
from nki_lab.result.recorded import Recorded
from nki_lab.session import NotRecorded
from nki_lab.timeline.rank_recording import record_ranks
from nki_lab.timeline.ranks import Together, together


class RankRuns(Recorded, Sequence[Run]):
    """The runs of all ranks, by rank, and what is seen, saved and exported of them together.

    `runs[2]` is the Run of rank 2, whose times know nothing of the others. `recording`, and everything made of it, has
    all ranks side by side, as they wait for each other in collectives; the summary's `ranks` names the `slowest` (-1:
    none is), and has for each rank its `makespan_ns`, `alone_ns` (the time of its own Run), `waits_ns` (what it waits
    for other ranks) and `awaited_ns` (what others wait for it).
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = tuple(runs)
        self.name = self._runs[0].name
        self.target = self._runs[0].target
        found = dict.fromkeys(item for run in self._runs for item in run.diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(by_severity(found))

    @overload
    def __getitem__(self, rank: int, /) -> Run: ...
    @overload
    def __getitem__(self, rank: slice, /) -> Sequence[Run]: ...
    def __getitem__(self, rank: int | slice, /) -> Run | Sequence[Run]:
        return self._runs[rank]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @cached_property
    def _together(self) -> Together:
        lines = [run._timeline for run in self._runs]
        missing = [rank for rank, line in enumerate(lines) if line is None]
        if missing:
            raise coded_error(
                "NKI023",
                f"the ranks of {self.name} have no recording: rank {missing[0]} has none",
                limit="a kernel that issued instructions on each rank, all of which have a cost, has a recording",
                help=f"the diagnostics of runs[{missing[0]}] say why",
            )
        return together([line for line in lines if line is not None])

    @cached_property
    def recording(self) -> Recording:
        """All ranks as one recording; NKI023 where one of them has no times."""
        found = self._together
        alone = [run._timeline.timing.makespan for run in self._runs if run._timeline is not None]
        return record_ranks(found, alone, [run.diagnostics for run in self._runs], [run.fault for run in self._runs])

    @property
    def fault(self) -> int:
        """The row of the recording at which a rank failed; -1 where all came to their ends."""
        return int(self.recording.summary.get("fault", -1)) if any(run.error for run in self._runs) else -1

    @property
    def has_recording(self) -> bool:
        """Whether all ranks have times to show, save and export."""
        return all(run.has_recording for run in self._runs)

    @property
    def values(self) -> ValueSource:
        """No values: those of a rank are in its own Run."""
        return NotRecorded("values are each rank's own: runs[0].view() shows those of rank 0")

    def _count(self) -> str:
        return f"{len(self)} rank{'s' * (len(self) != 1)}"

    def __repr__(self) -> str:
        found = counts(self.diagnostics)
        return f"<runs of {self.name} on {self.target}: {self._count()}{f'; {found}' if found else ''}>"

    def __str__(self) -> str:
        if not self.has_recording:
            return repr(self)
        ranks, taken = self.summary.ranks, formatting.makespan(self.summary, self.recording.makespan)
        lines = [f"{self.name} on {self.target}, {self._count()}: {taken}"]
        lines += [f"  {sentence}" for sentence in formatting.held_back(self.recording)]
        for rank, run in enumerate(self._runs):
            own, waits, awaited = (
                quantities.duration(round(ranks[name][rank] * 1000))
                for name in ("makespan_ns", "waits_ns", "awaited_ns")
            )
            lines.append(
                f"  rank {rank}: {own}, waits {waits}, awaited {awaited}; {counts(run.diagnostics) or 'no findings'}"
            )
        return "\n".join(lines)
