"""The folder of a sweep: the rows of finished points in Parquet files, each of which is written once and whole.

Several processes may use a folder at the same time: each adds files under names of its own, and a point that stands in
two of them is the same point. Parameters stand in one column as JSON, for readers who filter without the
sweep.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nki_lab.diagnostic import coded_error
from nki_lab.extras import extra
from nki_lab.file_system import require_writable_folder, whole_file
from nki_lab.source_files import require_file
from nki_lab.sweeps.columns import COLUMNS, STATUSES, Row

FORMAT: Final = b"nki_lab.sweep"
VERSION: Final = b"1"
_PREFIX: Final = "points-"
_OWN: Final = {"parameters": "string", "layout": "string"}
"""Columns of the files alone: the parameters as JSON, and where the kernel stood when its finding was made."""


@dataclass(slots=True)
class Store:
    """The rows of a folder. `problems` are sentences about what could not be read or written."""

    folder: Path
    rows: dict[str, Row] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _waiting: list[Row] = field(default_factory=list)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Store:
        """Return the rows of a folder, which need not be there yet; NKI022 without pyarrow, NKI021 for a file."""
        with extra("save", "keeping the points of a sweep needs", operand="folder"):
            import pyarrow.parquet  # noqa: F401

        store = cls(Path(folder))
        if store.folder.exists() and not store.folder.is_dir():
            raise coded_error("NKI021", f"{folder} is no folder", operand="folder", help="choose another name")
        try:
            files = sorted(path for path in store.folder.iterdir() if path.suffix == ".parquet")
        except FileNotFoundError:
            files = []
        except OSError as error:
            raise coded_error(
                "NKI021", f"{folder} cannot be read: {error.strerror}", operand="folder", help="choose another folder"
            ) from error
        for path in files:
            store._read(path)
        return store

    def require_writable(self) -> None:
        """Make the folder, and check that files can be written there: NKI021 before anything is computed."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            require_writable_folder(self.folder)
        except OSError as error:
            raise coded_error(
                "NKI021",
                f"{self.folder} cannot be written to: {error.strerror or error}",
                operand="folder",
                limit="the points of a sweep are kept in its folder",
                help="choose another folder, or none: then the points are kept until the session ends",
            ) from error

    def add(self, key: str, parameters: Mapping[str, str], layout: str, row: Row) -> None:
        """Take the row of a finished point; `flush` writes it."""
        self._waiting.append({**row, "key": key, "parameters": json.dumps(parameters), "layout": layout})

    def flush(self) -> None:
        """Write what has come since the last time; what the disk refuses is told once and tried again next time."""
        if not self._waiting:
            return
        try:
            self._write(self._waiting)
        except OSError as error:
            problem = f"finished points could not be written to {self.folder}: {error.strerror or error}"
            if problem not in self.problems:
                self.problems.append(problem)
        else:
            self._waiting = []

    def _write(self, rows: list[Row]) -> None:
        import pyarrow
        from pyarrow import parquet

        kinds = {**{name: column.kind for name, column in COLUMNS.items()}, **_OWN}
        schema = pyarrow.schema(
            [(name, pyarrow.type_for_alias(kind)) for name, kind in kinds.items()], metadata={FORMAT: VERSION}
        )
        table = pyarrow.Table.from_pylist([{name: row.get(name) for name in kinds} for row in rows], schema=schema)
        with whole_file(self.folder / f"{_PREFIX}{uuid.uuid4().hex}.parquet") as stream:
            parquet.write_table(table, stream)

    def _read(self, path: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        try:
            require_file(path)
            table = parquet.read_table(path, partitioning=None)
        except (OSError, pyarrow.ArrowException) as error:
            self.problems.append(f"{path} cannot be read, and its points are computed again: {_first_line(error)}")
            return
        made = (table.schema.metadata or {}).get(FORMAT)
        if made is None:
            self.problems.append(f"{path} holds no points of a sweep")
        elif made != VERSION:
            self.problems.append(f"{path} is of version {made.decode(errors='replace')}, this release reads 1")
        else:
            rows = table.to_pylist()
            good = [row for row in rows if isinstance(row.get("key"), str) and row.get("status") in STATUSES]
            if len(good) < len(rows):
                self.problems.append(f"{path} has {len(rows) - len(good)} rows that are no points")
            self.rows |= {row["key"]: row for row in good}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def finished(rows: Mapping[str, Row], key: str, layout: str) -> Row | None:
    """Return the kept row of a point; None where it has to be computed.

    What a lost point would give is not known. The place of a finding holds as long as the kernel stands where it did.
    """
    row: dict[str, Any] | None = rows.get(key)
    if row is None or row["status"] == "lost" or (row["status"] != "ok" and row.get("layout") != layout):
        return None
    return {name: row.get(name) for name in COLUMNS}
