"""One recording of several: the ranks of a launch side by side, each with lanes, memory and rows of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.recording import schema
from nki_lab.kernel_runtime.recording.build import Names
from nki_lab.kernel_runtime.recording.columns import Array, Json, whole
from nki_lab.kernel_runtime.recording.recording import Recording
from nki_lab.kernel_runtime.vocabulary import EDGE_KINDS

_KEPT: Final = (
    "rows", "changes", "accesses", "edges", "views", "patterns", "dims", "buffers", "lanes", "ops", "sites",
    "iterations", "triggers", "lifetimes",
)  # fmt: skip
"""Tables whose rows follow each other, rank by rank; the others are shared, or follow from these."""

_FIRST_OF: Final = {("rows", "access"): "accesses", ("patterns", "dim"): "dims"}
"""Columns that say where something begins in another table."""


class Merging:
    """The recordings of all ranks as the tables of one. `first_row[r]` is the number of the first row of rank r."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = recordings
        self._names = Names()
        self._sources: dict[tuple[str, str], int] = {}
        self.first_row = self._firsts("rows")
        self._shifts = {name: self._firsts(name) for name in _KEPT}
        cores = [len({lane.core for lane in recording.lanes}) for recording in recordings]
        self._first_core = np.concatenate(([0], np.cumsum(cores)))[:-1]
        parts = [self._tables(rank) for rank in range(len(recordings))]
        self.tables: dict[str, dict[str, Any]] = {
            name: {column: np.concatenate([part[name][column] for part in parts]) for column in parts[0][name]}
            for name in _KEPT
        }
        order = np.argsort(self.tables["lifetimes"]["start"], kind="stable")
        self.tables["lifetimes"] = {name: column[order] for name, column in self.tables["lifetimes"].items()}
        self.tables["stalls"] = {"name": list(recordings[0].stalls)}
        paths, texts = zip(*self._sources, strict=True) if self._sources else ((), ())
        self.tables["sources"] = {"path": list(paths), "text": list(texts)}

    def recording(
        self, exchanges: Mapping[str, Any], after: Mapping[int, int], summary: Mapping[str, Json], makespan: int
    ) -> Recording:
        """Return the recording, with the table `exchanges`, and rows that waited for rows of other ranks.

        `after` has the row of another rank for each row that waited for one; it becomes an edge too.
        """
        rows = self.tables["rows"]
        edges: dict[str, Array] = self.tables["edges"]
        waiting, before = (np.array(list(column), np.int64) for column in (after.keys(), after.values()))
        rows["after"] = rows["after"].copy()
        rows["after"][waiting] = before
        kind = np.full(len(waiting), EDGE_KINDS.index("rank"), np.uint8)
        more: dict[str, Array] = {"row": waiting, "before": before, "kind": kind}
        joined = {name: np.concatenate((edges[name], more[name])) for name in edges}
        order = np.argsort(joined["row"], kind="stable")
        tables = {
            **self.tables,
            "edges": {name: column[order] for name, column in joined.items()},
            "exchanges": exchanges,
        }
        return Recording({**tables, "names": {"text": self._names.texts()}}, summary, makespan)

    def _firsts(self, name: str) -> Array:
        """Return where the rows of each rank begin in a table."""
        lengths = [len(recording.table(name)) for recording in self._recordings]
        return np.concatenate(([0], np.cumsum(lengths)))[:-1].astype(np.int64)

    def _tables(self, rank: int) -> dict[str, dict[str, Array]]:
        recording = self._recordings[rank]
        names = np.array([self._names.number(text) for text in recording.names], np.int64)
        texts = recording.table("sources")
        pairs = zip(texts.texts("path"), texts.texts("text"), strict=True)
        sources = np.array([self._sources.setdefault(pair, len(self._sources)) for pair in pairs] or [0], np.int64)
        out: dict[str, dict[str, Array]] = {}
        for name in _KEPT:
            table = recording.table(name)
            out[name] = {
                column.name: self._moved(rank, column, name, whole(table[column.name]), names, sources)
                for column in table.spec.columns
            }
        out["lanes"]["rank"] = np.full(len(recording.lanes), rank, np.int64)
        return out

    def _moved(
        self, rank: int, column: schema.Column, table: str, values: Array, names: Array, sources: Array
    ) -> Array:
        """Return a column with the numbers that its values have among those of all ranks."""
        if column.name == "core":
            values = values.astype(np.int64)
            values += int(self._first_core[rank])
            return values
        if column.to == "names":
            return names[values]
        if column.to == "sources":
            return sources[values]
        target = _FIRST_OF.get((table, column.name), column.to)
        if target not in self._shifts:
            return values
        moved = values.astype(np.int64) + int(self._shifts[target][rank])
        return np.where(values < 0, values, moved) if column.optional else moved
