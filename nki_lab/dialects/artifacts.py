"""The files that a device run of Beta 1 writes: in place of NEFF and NTFF, a recording and the tables of a profile.

A NEFF is machine code and an NTFF the counters of a chip: a simulation has neither. Under the name that an option
gives, so that scripts find what they ask for, stands a folder: in place of `save_neff_name="file.neff"` the recording
of the run, in place of `save_trace_name="profile.ntff"` the tables of a Neuron Explorer profile; `nki_lab.open` reads
both. Each appears whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.extras import extra
from nki_lab.session import Execution

REPORTS: Final = "json_reports"
"""The folder in a working directory with the summary of a profile, as `nki.profile` names it."""
PREDICTED: Final = "a prediction, not a measurement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """The places that the options of a decorator name; None for what is not asked for.

    `folder` is where relative names begin (None: the working directory of the process). Without `overwrite` nothing
    that exists is replaced. `listing` is the empty folder for the program's text. A profile and a report are written
    for each of the numbered `executions`, which all take the same time.
    """

    recording: str | None = None
    profile: str | None = None
    report: str | None = None
    listing: str | None = None
    folder: Path | None = None
    overwrite: bool = True
    executions: Sequence[int] = (1,)

    @property
    def wanted(self) -> bool:
        """Whether anything is written."""
        return any(name is not None for name in (self.recording, self.profile, self.report, self.listing))

    def places(self) -> list[tuple[str, Path]]:
        """Return field and path of everything that is written."""
        base = self.folder or Path()
        found: list[tuple[str, Path]] = []
        if self.recording is not None:
            found.append(("recording", base / self.recording))
        for number in self.executions:
            if self.profile is not None:
                found.append(("profile", base / _of_execution(Path(self.profile), number)))
            if self.report is not None:
                report = _of_execution(Path(self.report), number).with_suffix(".json")
                found.append(("report", base / REPORTS / report.name))
        if self.listing is not None:
            found.append(("listing", Path(self.listing)))
        return found

    def require(self) -> None:
        """Check before the run that all can be written: NKI021 says what is in the way, NKI022 what is missing."""
        from nki_lab.export.explorer.tables import TABLES
        from nki_lab.export.files import require_replaceable

        if self.recording is not None or self.profile is not None:
            with extra("save", "writing a recording or a profile needs", otherwise="name no files"):
                import pyarrow.parquet  # noqa: F401
        for field, place in self.places():
            _require_folder(place if field == "listing" else place.parent)
            if field == "listing":
                if place.exists() and not (place.is_dir() and not any(place.iterdir())):
                    raise _in_the_way(place, "artifacts_dir names a folder that is empty or does not exist yet")
                continue
            if not self.overwrite and place.exists():
                raise _in_the_way(place, "what exists is replaced with overwrite=True only")
            if field == "profile":
                require_replaceable(place, [f"{table}.parquet" for table in TABLES])
            elif place.exists() and place.is_dir() is (field == "report"):
                raise _in_the_way(place, f"a {'file' if field == 'report' else 'folder'} is written there")

    def write(self, name: str, execution: Execution) -> Iterator[str]:
        """Write everything for a run of the kernel `name`; gives a line about each file as it is there.

        NKI023 where the run has no times, NKI021 where the disk refuses.
        """
        from nki_lab.export.explorer import writing
        from nki_lab.export.files import replacing

        if execution.timeline is None:
            raise untimed(name)
        recording = execution.timeline.record(execution.diagnostics)
        for field, place in self.places():
            _make_folder(place if field == "listing" else place.parent)
            if field == "recording":
                recording.save(place)
                yield f"{place}: a folder with the recording of {name} in place of a NEFF; nki_lab.open reads it"
            elif field == "profile":
                writing.write(recording, place)
                yield f"{place}: a folder with Neuron Explorer tables of the prediction for {name} in place of an NTFF"
            elif field == "report":
                with replacing(place) as stream:
                    stream.write(json.dumps(_report(name, execution.timeline.summary), indent=1).encode() + b"\n")
                yield f"{place}: summary of the predicted profile of {name}"
            else:
                listing = place / f"{name}.nki-ir.txt"
                with replacing(listing) as stream:
                    stream.write(execution.program.text().encode() + b"\n")
                yield f"{listing}: NKI IR of {name} in place of the artifacts of the device compiler"


def _of_execution(name: Path, number: int) -> Path:
    """Return the name of the profile of an execution: the first has the plain one."""
    return name if number == 1 else name.with_stem(f"{name.stem}_exec_{number}")


def untimed(name: str) -> NkiError:
    """Return NKI023: the call of a kernel left no times."""
    return coded_error(
        "NKI023",
        f"the run of {name} has no times",
        limit="a kernel that issued instructions, all of which have a cost, has times",
        help="its diagnostics name what has no cost yet; loops that depend on data need values, not shapes",
    )


def text_of(options: Mapping[str, Any], name: str, entry: str) -> str | None:
    """Return a name or path among the options of the decorator `entry`, None without one; NKI012 for another value."""
    value = options.get(name)
    if value is None:
        return None
    try:
        text = os.fspath(value)
    except TypeError:
        text = b""
    if isinstance(text, str) and Path(text).name:
        return text
    raise coded_error("NKI012", f"{entry}: {name} is {value!r}", operand=name, limit=f"{name} is a file name or a path")


def _report(name: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile's summary as data: `total_time` in seconds as a profiler prints it, and the summary by name."""
    plain = {key: value for key, value in summary.items() if isinstance(value, (int, float, str, list, tuple, dict))}
    return {name: {"note": PREDICTED, "total_time": summary["makespan_ns"] / 1e9, **plain}}


def _require_folder(folder: Path) -> None:
    """Check that a folder can be written to, or be made: NKI021."""
    there = next(item for item in (folder.absolute(), *folder.absolute().parents) if item.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise coded_error(
            "NKI021",
            f"{folder}: {there} {'may not be written to' if there.is_dir() else 'is a file'}",
            limit="files are written into a folder that exists or can be made",
            help="choose another folder; the kernel has not been run",
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise coded_error("NKI021", f"{folder}: not made: {error.strerror}", help="choose another folder") from error


def _in_the_way(place: Path, limit: str) -> NkiError:
    return coded_error(
        "NKI021", f"{place} exists", limit=limit, help="remove it or choose another place; the kernel has not been run"
    )
