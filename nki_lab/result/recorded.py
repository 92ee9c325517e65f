"""The base of everything with a recording: it has numbers, saves itself, and is written as a trace or a report."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error
from nki_lab.export.findings import counts, findings
from nki_lab.extras import extra
from nki_lab.kernel_runtime.protocols import ErrorGrowth, ValueSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.loops import Loop, loops
from nki_lab.session import NotRecorded
from nki_lab.session.arrays import Array
from nki_lab.session.tiles import no_growth, tiles_of
from nki_lab.timeline.summary import Summary

if TYPE_CHECKING:
    from nki_lab.result.comparison import RunComparison
    from nki_lab.result.notebook import Beside
    from nki_lab.widgets.visualizer import Visualizer

Writer = Callable[[Recording, str | os.PathLike[str]], None]

# What is of a recording's summary, not of a run's.
_APART: Final = (
    "makespan_ps", "kernel", "options", "diagnostics", "fault", "fault_after", "cancelled", "cancelled_ps",
)  # fmt: skip


def recorded_summary(recording: Recording) -> Summary:
    """Return the counts, times and shares that were recorded with a run, by name; times in nanoseconds."""
    return Summary({name: value for name, value in recording.summary.items() if name not in _APART})


class Recorded(ABC):
    """A run with its recording: `name` of the kernel, `target`, `diagnostics`."""

    name: str
    target: str
    diagnostics: tuple[Diagnostic, ...]
    beside: Beside | None = None
    """Other runs of a notebook cell, as long as that shows this one."""

    @property
    def summary(self) -> Summary:
        """Counts, times and shares of the run, by name; times in nanoseconds."""
        return recorded_summary(self.recording)

    @property
    @abstractmethod
    def recording(self) -> Recording:
        """The instructions of the run with lanes and times, as tables that views and exports read."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the recording, and pinned tiles, into a folder, by custom called something.nkirec; what was there is
        replaced whole. NKI022 where the package pyarrow is missing; `pip install nki-lab[save]` brings it.
        """
        self.recording.save(path, self.pins)
        return Path(path)

    def to_perfetto(self, path: str | os.PathLike[str]) -> Path:
        """Write a trace for the Perfetto viewer: engines and queues as tracks, waits, dependencies, counters.

        NKI022 where the package perfetto is missing; `pip install nki-lab[perfetto]` brings it.
        """
        from nki_lab.export import perfetto

        return self._written(path, perfetto.write)

    def to_html(self, path: str | os.PathLike[str], *, charts: bool = False) -> Path:
        """Write a report as one HTML file that needs no network: timeline, memory, costly lines, findings.

        With `charts`, those of `nki_lab.plots` stand below, linked with the timeline; bokeh's script makes the file
        1.3 MB larger. NKI022 where bokeh is missing then; `pip install nki-lab[plots]` brings it.
        """
        from nki_lab.export import html

        if not charts:
            html.write(self.recording, path, self.pins)
            return Path(path)
        from nki_lab import plots

        add = plots.with_charts
        html.write(self.recording, path, self.pins, lambda page: add(page, self.recording))
        return Path(path)

    def to_explorer(self, path: str | os.PathLike[str]) -> Path:
        """Write the tables of a Neuron Explorer profile into a folder, in place of an earlier profile.

        `nki_lab.open` reads the folder as a run again, to the nanosecond. NKI022 where the package pyarrow is missing;
        `pip install nki-lab[save]` brings it.
        """
        from nki_lab.export.explorer import writing

        return self._written(path, writing.write)

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write `instructions.csv`, `lanes.csv` and `lines.csv` into a folder, in place of earlier ones."""
        from nki_lab.export import csv

        return self._written(path, csv.write)

    def to_frame(self, plot: str, *, pandas: bool = False, **options: Any) -> Any:
        """Return the columns of a chart as a pyarrow Table, or as a pandas DataFrame with `pandas`.

        `plot` is the name of a chart of `nki_lab.plots` (`utilisation`, `memory`, `bandwidth`, `roofline`, `roofs`,
        `dma_sizes`, `dma_curve`, `stalls`), or `loops` or `iterations`; `options` are those of its columns: `bins` or
        `bin_ns`. The figure draws exactly these columns. NKI022 where the package is missing; `pip install nki-
        lab[save]` brings pyarrow.
        """
        from nki_lab.plots.columns import frame

        columns = frame(self.recording, plot, **options)
        with extra("save", "a table of columns needs", operand="to_frame"):
            import pyarrow
        table = pyarrow.table(columns)
        if not pandas:
            return table
        try:
            return table.to_pandas()
        except ModuleNotFoundError:
            raise coded_error(
                "NKI022",
                "a DataFrame needs the package pandas, which is not installed",
                operand="pandas",
                help="pip install pandas, or take the pyarrow Table",
            ) from None

    def loops(self) -> tuple[Loop, ...]:
        """Return the loops of the run, outer ones before inner ones, with what their iterations take; times in
        picoseconds. `to_frame("iterations")` has each iteration.
        """
        return loops(self.recording).loops

    def _written(self, path: str | os.PathLike[str], write: Writer) -> Path:
        write(self.recording, path)
        return Path(path)

    def compare(self, other: Recorded) -> RunComparison:
        """Compare this run with a later one: what changes from this run to `other`.

        `other` may be of an edited kernel, of another target or other sizes, a saved run, or a profile of a device.
        Runs of different kernels are compared by time only.
        """
        from nki_lab.result.comparison import RunComparison

        if not isinstance(other, Recorded):
            raise coded_error(
                "NKI012",
                f"a run is compared with a run, not with {type(other).__name__}",
                operand="other",
                help="nki_lab.open(path) gives the run of a folder",
            )
        return RunComparison(self.recording, other.recording)

    def view(self, *, step: int | None = None) -> Visualizer:
        """The visualizer as a widget of this notebook, at a step where one is given.

        Its `step` can be set and observed, and `view.link(figure)` links it with charts. NKI022 where the notebook
        packages are missing; the extra `nki-lab[widgets]` brings them.
        """
        from nki_lab import widgets

        tiles = tiles_of(self.values, self._checked, self._growth)
        at = -1 if step is None else step
        return widgets.view(
            self.recording,
            fault=self.fault,
            step=at,
            tiles=tiles,
            pins=self.pins,
            pin=self._pin,
            linking=_link,
            charting=self._charts,
            picture=self._picture,
            texts=self._texts,
        )

    def _charts(self, channel: str, version: str) -> tuple[dict[str, Any], bytes]:
        """Return the charts of the summary for a page that has a version of bokeh; NKI022 where bokeh is missing."""
        from nki_lab import plots

        return plots.for_summary(self.recording, channel, version)

    def _picture(self) -> bytes:
        """Return the run as a picture, which is what remains of a visualizer when many others follow it."""
        from nki_lab.export import picture

        return picture.png(self.recording)

    def _texts(self) -> dict[str, str]:
        """Return what stands for a visualizer on pages that show no widgets: a line, and a picture with its numbers."""
        from nki_lab.result.notebook import texts

        return texts(self.recording)

    @property
    def pins(self) -> tuple[bytes, ...]:
        """The pictures of tiles that notebooks and pages keep, as messages; see `Run.pin`."""
        return ()

    @property
    def _pin(self) -> Callable[[int, int], bytes] | None:
        """The function that keeps a picture of a buffer after a step and returns it; None where there are no values."""
        return None

    def _growth(self) -> ErrorGrowth:
        """Return how the errors of the run grow from step to step."""
        return no_growth()

    @property
    def _checked(self) -> Mapping[int, Array]:
        """The arrays that the outputs were last compared with, by their buffers."""
        return {}

    @property
    def values(self) -> ValueSource:
        """The content of memory at each step; a folder has times and no values."""
        return NotRecorded("values not recorded: a saved run has times only")

    @property
    def fault(self) -> int:
        """The instruction that failed, or the last one before it; -1 where the run came to its end."""
        return int(self.recording.summary.get("fault", -1))

    @property
    def has_recording(self) -> bool:
        """Whether there are times to show, save and export."""
        return True

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        from nki_lab.dialects.environment import notebook_bytes
        from nki_lab.result.notebook import ALONE, bundle

        if not self.has_recording:
            return {"text/plain": str(self)}
        limit = notebook_bytes()
        try:
            return bundle(self.recording, limit, self.fault, self.view, self.pins, self.beside or ALONE)
        except NkiError as error:  # a saved recording that is damaged: the notebook goes on
            return {"text/plain": f"{self.name} cannot be shown\n\n{error}"}

    def report(self) -> str:
        """The run as a page of text: where the time went, what holds it back, which lines cost, what was found."""
        from nki_lab.export import text

        return text.report(self.recording) if self.has_recording else str(self)


def _link(channel: str, figures: tuple[object, ...]) -> None:
    """Have figures talk with the views of a channel; NKI022 without bokeh."""
    from nki_lab import plots

    plots.link(channel, figures)


class SavedRun(Recorded):
    """A run that was saved, or profiled elsewhere: everything but the arrays and the program."""

    def __init__(self, recording: Recording, path: Path, pins: tuple[bytes, ...] = ()) -> None:
        self._recording = recording
        self._pins = pins
        self.path = path
        self.name = str(recording.summary.get("kernel") or path.stem)
        self.target = str(recording.summary.get("target") or "")
        self.diagnostics = findings(recording)

    @property
    def recording(self) -> Recording:
        """The instructions of the run with lanes and times, as tables; columns are read from the folder on demand."""
        return self._recording

    @property
    def pins(self) -> tuple[bytes, ...]:
        """The pictures of tiles that were pinned before the run was saved."""
        return self._pins

    def __repr__(self) -> str:
        where = f" on {self.target}" if self.target else ""
        found = counts(self.diagnostics)
        count = self.recording.instructions
        instructions = f"{count:,} instruction{'s' * (count != 1)}"
        return f"<saved run of {self.name}{where}: {instructions}{f'; {found}' if found else ''}>"

    def __str__(self) -> str:
        return self.report()
