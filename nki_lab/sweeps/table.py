"""The result of a sweep: a row for each point, the best of them, and the way from it to code."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from nki_lab import quantities
from nki_lab.diagnostic import coded_error
from nki_lab.export import formatting
from nki_lab.export.comparison.tables import MEMORY_LABELS
from nki_lab.extras import extra
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.sweeps.columns import COLUMNS, STATUSES, Row
from nki_lab.sweeps.points import LAUNCH, Plan, Point, shown, spec_of

_PARETO: Final = ("latency_ns", "sbuf_peak_bytes")
_PEAKS: Final = ("sbuf_peak_bytes", "psum_peak_bytes")
_CONSTANTS: Final = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True, eq=False)
class SweptPoint:
    """A point with its row: `point["TILE"]`, `point["latency_ns"]`; `code` says how to launch it."""

    point: Point
    row: Row
    kernel: str

    def __getitem__(self, name: str) -> Any:
        return self.point.parameters[name] if name in self.point.parameters else self.row[name]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The values of the parameters."""
        return self.point.parameters

    @property
    def ok(self) -> bool:
        """Whether the point was worked out and nothing is wrong with it."""
        return bool(self.row["status"] == "ok")

    def code(self) -> str:
        """Return Python code that profiles the point, with the globals that it needs above."""
        task = self.point.task
        lines = [f"{name} = {_literal(value)}" for name, value in task.names.items()]
        call = self.kernel if task.grid is None else f"{self.kernel}[{_literal(task.grid)}]"
        named = {name: _literal(value) for name, value in task.keywords.items()}
        options = {name: _literal(value) for name, value in self.parameters.items()
                   if name not in (*task.names, *task.keywords, *LAUNCH) and hasattr(task.options, name)}  # fmt: skip
        parts = [*(_literal(value) for value in task.args), *(f"{name}={text}" for name, text in named.items())]
        parts += [f"{name}={text}" for name, text in options.items()]
        parts.append(f"target={_literal(task.target)}")
        lines.append(f"run = nki_lab.profile({', '.join([call, *parts])})")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"# {_described(self)}\n{self.code()}"


def columns_of(parameters: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the columns of a sweep over some parameters: these, then what is found."""
    given = tuple(parameters)
    return (*given, *(name for name in COLUMNS if name not in given))


def require_columns(columns: Sequence[str], *names: str) -> None:
    """Raise NKI012 for a name that is none of a sweep's columns."""
    for name in names:
        if name not in columns:
            raise coded_error(
                "NKI012",
                f"the sweep has no column {name}",
                operand=name,
                help=did_you_mean(name, columns),
                limit=f"columns: {', '.join(columns)}",
            )


class Sweep(Sequence[SweptPoint]):
    """The points of a sweep, in the order of its parameters, each with its row.

    `cancelled` says that some points are missing because the sweep was told to end; `reused` counts those that were
    finished before, `problems` are sentences about the folder.
    """

    def __init__(
        self,
        plan: Plan,
        points: Sequence[Point],
        rows: Mapping[int, Row],
        *,
        reused: int = 0,
        problems: Sequence[str] = (),
    ) -> None:
        self.name = plan.kernel.__name__
        self.parameters = tuple(plan.values)
        self.reused = reused
        self.problems = tuple(problems)
        self.cancelled = len(rows) < len(points)
        self.asked = len(points)
        self._points = [
            SweptPoint(point, _whole(point, rows[point.number]), self.name) for point in points if point.number in rows
        ]

    def __len__(self) -> int:
        return len(self._points)

    def __getitem__(self, index: Any) -> Any:
        return self._points[index]

    def __iter__(self) -> Iterator[SweptPoint]:
        return iter(self._points)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns: the parameters, then what was found."""
        return columns_of(self.parameters)

    def rows(self) -> list[Row]:
        """Return the table as plain data: a mapping from each column to its value, for each point."""
        return [{name: _cell(item[name]) for name in self.columns} for item in self]

    @property
    def failures(self) -> list[SweptPoint]:
        """The points that were not worked out, or with which something is wrong."""
        return [item for item in self if not item.ok]

    def to_table(self) -> Any:
        """Return the table as one of pyarrow; NKI022 without it."""
        with extra("save", "the table of a sweep needs", operand="to_table", otherwise="take sweep.rows()"):
            import pyarrow

        rows = self.rows()
        made = {}
        for name in self.columns:
            values = [row[name] for row in rows]
            if name in COLUMNS:
                made[name] = pyarrow.array(values, pyarrow.type_for_alias(COLUMNS[name].kind))
            else:
                kinds = {type(value) for value in values} - {type(None)}
                is_one = len(kinds) <= 1 or kinds <= {int, float}
                made[name] = pyarrow.array(values if is_one else [repr(value) for value in values])
        return pyarrow.table(made)

    def to_frame(self) -> Any:
        """Return the table as a DataFrame where pandas is installed, else as a table of pyarrow."""
        table = self.to_table()
        try:
            importlib.import_module("pandas")
        except ImportError:
            return table
        return table.to_pandas()

    def best(self, column: str = "latency_ns", **where: object) -> SweptPoint:
        """Return the point with the least of a column, of those whose parameters are as `where` says.

        Only points with which nothing is wrong count; of equal ones the first. NKI012 where there is none.
        """
        self._require(column, *where)
        found = [item for item in self._measured(column) if all(item[name] == value for name, value in where.items())]
        if not found:
            counts = ", ".join(f"{number} {status}" for status, number in self._counts().items())
            raise coded_error(
                "NKI012",
                f"no point of the sweep of {self.name} has a {column}",
                limit=f"points: {counts or 'none'}",
                help="sweep.failures has their findings" if self.failures else "",
            )
        return min(found, key=lambda item: item[column])

    def best_by(self, *parameters: str, column: str = "latency_ns") -> list[SweptPoint]:
        """Return the best point for each combination of some parameters, as of the shapes that a kernel meets."""
        self._require(column, *parameters)
        found: dict[str, SweptPoint] = {}
        for item in self._measured(column):
            key = repr([shown(item[name]) for name in parameters])
            if key not in found or item[column] < found[key][column]:
                found[key] = item
        return list(found.values())

    def pareto(self, first: str = _PARETO[0], second: str = _PARETO[1], **where: object) -> list[SweptPoint]:
        """Return the points of which no other is better in one column and as good in the other, by the first column."""
        self._require(first, second, *where)
        found: list[SweptPoint] = []
        some = [item for item in self._measured(first, second) if all(item[name] == where[name] for name in where)]
        for item in sorted(some, key=lambda item: (item[first], item[second], item.point.number)):
            if not found or item[second] < found[-1][second]:
                found.append(item)
        return found

    def _measured(self, *columns: str) -> list[SweptPoint]:
        return [item for item in self if item.ok and all(item[name] is not None for name in columns)]

    def _require(self, *names: str) -> None:
        require_columns(self.columns, *names)

    def _counts(self) -> dict[str, int]:
        counts = Counter(item["status"] for item in self)
        return {status: counts[status] for status in STATUSES if counts[status]}

    def text(self, form: Literal["table", "summary"] = "table") -> str:
        """Return the points as a table, with the best one as code below it; or only what is below."""
        lines = [*_table(self), ""] if form == "table" else []
        missing = f", {self.asked - len(self)} not worked out: cancelled" if self.cancelled else ""
        counts = ", ".join(f"{number} {status}" for status, number in self._counts().items())
        lines += [f"{len(self)} of {self.asked} points: {counts or 'none'}{missing}"]
        lines += [f"note: {problem}" for problem in self.problems]
        if self._measured("latency_ns"):
            lines += ["", repr(self.best())]
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        """Return the table as JSON, with the best point and the Python that launches it."""
        best = self.best() if self._measured("latency_ns") else None
        data = {
            "kernel": self.name,
            "points": self.rows(),
            "asked": self.asked,
            "best": None if best is None else {name: _cell(best[name]) for name in self.columns},
            "source": None if best is None else best.code(),
            "problems": list(self.problems),
        }
        return json.dumps(data, indent=1)

    def __repr__(self) -> str:
        return self.text()


def _whole(point: Point, row: Row) -> Row:
    found = {name: row.get(name) for name in COLUMNS}
    return {**found, "key": point.key, "target": point.task.target, "shapes": point.shapes}


def _cell(value: object) -> object:
    return value if isinstance(value, _CONSTANTS) else shown(value)


def _literal(value: object) -> str:
    value = spec_of(value)
    if isinstance(value, TensorSpec):
        return f'nki_lab.spec({value.shape!r}, "{value.dtype.name}")'
    return json.dumps(value) if isinstance(value, str) else shown(value)


def _described(item: SweptPoint) -> str:
    row = item.row
    chosen = ", ".join(f"{name}={_literal(value)}" for name, value in item.parameters.items())
    if not item.ok:
        return f"{chosen}: {row['status']}, {row['code'] or ''} {row['message'] or ''}".rstrip()
    return f"{chosen or item.kernel}: {formatting.latency(row)} on {row['target']}"


def _table(sweep: Sweep) -> list[str]:
    names = [*sweep.parameters, *(["target"] if "target" not in sweep.parameters else [])]
    compared = any(item["max_error"] is not None for item in sweep)
    head = [
        *names,
        "latency",
        "80 % interval",
        *(MEMORY_LABELS[f"{name}_per_partition"] for name in _PEAKS),
        *(["max error"] if compared else []),
        "",
    ]
    body = [head]
    for item in sweep:
        row = item.row
        known = row["latency_ns"] is not None
        cells = [str(_cell(item[name])) for name in names]
        cells += [quantities.duration(round(row["latency_ns"] * 1000)) if known else ""]
        cells += [formatting.latency_bounds(row).strip(", ") if known else ""]
        cells += [quantities.size(row[name]) if row[name] is not None else "" for name in _PEAKS]
        cells += [f"{row['max_error']:.3g}" if row["max_error"] is not None else ""] if compared else []
        place = f"line {row['line']}: " if row["line"] else ""
        reason = " ".join(filter(None, (row["code"], f"{place}{row['message']}" if row["message"] else "")))
        body.append([*cells, "" if item.ok else f"{row['status']}: {reason}"])
    widths = [max(len(line[column]) for line in body) for column in range(len(head))]
    rows = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in body]
    return [rows[0], "  ".join("-" * width for width in widths[:-1]), *rows[1:]]
