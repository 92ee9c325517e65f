"""Read `benchmarks/published.json`: kernels, how each is run, and the figures published for each run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

DATA = Path(__file__).parents[1] / "published.json"

Form = Literal["module", "listing", "fragment", "candidate", "package"]
Kind = Literal["measured", "recorded", "rounded", "ceiling", "copied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A public kernel: where it stands, and how its function is reached.

    `form` says what `file` is: a `module` to import; a `listing`, the code block number `block` (from 0) of a page; a
    `fragment`, a function without imports, which `preamble` supplies; a `candidate`, such a function in number `block`
    (from 0, the first) of a search's nested candidates; a module of a `package` whose root is `root`.
    `sha256` is that of the file at `commit`. `stubs` are modules that the file imports for its tests and not for the
    kernel: an empty one stands in where they are not installed.
    """

    id: str
    repository: str
    commit: str
    file: str
    sha256: str
    form: Form
    function: str
    dialect: str
    block: int = 0
    preamble: str = ""
    root: str = ""
    stubs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of a kernel: `cores` is the number of logical cores of its launch, `arguments` are those of the call.

    `note` says what is known about the measurement and not about the kernel. `trip_counts` are the iterations of
    device loops that depend on data, by name. Runs of one `problem` compute the same by different versions or options
    of a kernel: which of them is faster is a prediction too.
    """

    id: str
    kernel: str
    family: str
    target: str
    cores: int
    arguments: Mapping[str, Any]
    grid: tuple[int, ...] = ()
    dtype: str = ""
    note: str = ""
    trip_counts: Mapping[str, int] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One published number.

    `run` is "" for a fact about an instruction or a transfer. `metric` is a field of `worker.measure`, `value` is in
    nanoseconds, bytes, operations, counts or fractions as the metric says. `kind`: `measured` by a profiler;
    `recorded` by a test suite, at an earlier version of the kernel; `rounded`, recorded with few digits; `copied`,
    equal to the number of another configuration; `ceiling`, an upper bound.
    """

    id: int
    run: str
    metric: str
    value: float
    kind: Kind
    tier: str
    source: str
    subject: str = ""
    note: str = ""


@dataclass(frozen=True)
class Published:
    """The published figures with the kernels that they are about."""

    repositories: Mapping[str, str]
    kernels: Mapping[str, Kernel]
    runs: Mapping[str, Run]
    figures: tuple[Figure, ...]

    @cached_property
    def of_run(self) -> Mapping[str, tuple[Figure, ...]]:
        """The figures of each run."""
        found: dict[str, list[Figure]] = {name: [] for name in self.runs}
        for figure in self.figures:
            if figure.run:
                found[figure.run].append(figure)
        return {name: tuple(figures) for name, figures in found.items()}


def load(path: Path = DATA) -> Published:
    """Return the published data; KeyError or TypeError name what an entry lacks or has too much."""
    data = json.loads(path.read_text())
    kernels = {entry["id"]: Kernel(**{**entry, "stubs": tuple(entry.get("stubs", ()))}) for entry in data["kernels"]}
    runs = {entry["id"]: Run(**{**entry, "grid": tuple(entry.get("grid", ()))}) for entry in data["runs"]}
    figures = tuple(Figure(**entry) for entry in data["figures"])
    return Published(data["repositories"], kernels, runs, figures)
