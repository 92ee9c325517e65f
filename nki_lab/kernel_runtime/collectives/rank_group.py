"""The ranks of one launch: each runs in a thread of its own, and waits for the others in collectives.

A rank that calls one hands in its data and waits for the others of its group. Where all ranks wait, or have come to
their ends, and no group is complete, those that wait get NKI241.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from nki_lab.diagnostic import Diagnostic, diagnose, error_of

Group = tuple[int, ...]


@dataclass
class _Rendezvous:
    """One call of a collective by the ranks of a group."""

    came: dict[int, tuple[str, Any]] = field(default_factory=dict)
    left: int = 0


class RankGroup:
    """Exchange data between `size` ranks."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._changed = threading.Condition()
        self._rendezvous: dict[tuple[Group, int], _Rendezvous] = {}
        self._calls: dict[tuple[Group, int], int] = {}  # how often a rank has called collectives of a group
        self._waiting: dict[int, tuple[str, _Rendezvous, Group]] = {}
        self._ended: set[int] = set()

    def exchange(self, rank: int, group: Group, what: str, data: Any) -> dict[int, Any]:
        """Return the data of each rank of `group` at this call, by rank; all must call the same `what`."""
        with self._changed:
            number = self._calls[group, rank] = self._calls.get((group, rank), -1) + 1
            rendezvous = self._rendezvous.setdefault((group, number), _Rendezvous())
            rendezvous.came[rank] = (what, data)
            self._waiting[rank] = (what, rendezvous, group)
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: len(rendezvous.came) == len(group) or self._is_stuck())
                complete = len(rendezvous.came) == len(group)
                found = None if complete else self._stuck(rank, what, group, rendezvous)
            finally:
                del self._waiting[rank]
        if found is not None:
            raise error_of(found)
        if len({name for name, _ in rendezvous.came.values()}) > 1:
            raise error_of(_unmatched([f"rank {member} calls {rendezvous.came[member][0]}" for member in group]))
        with self._changed:
            rendezvous.left += 1
            if rendezvous.left == len(group):
                del self._rendezvous[group, number]
        return {member: data for member, (_, data) in rendezvous.came.items()}

    def leave(self, rank: int) -> None:
        """A rank has come to its end, or failed."""
        with self._changed:
            self._ended.add(rank)
            self._changed.notify_all()

    def _is_stuck(self) -> bool:
        """Whether nobody is left who could complete a rendezvous."""
        completes = any(len(rendezvous.came) == len(group) for _, rendezvous, group in self._waiting.values())
        return not completes and len(self._ended) + len(self._waiting) == self.size

    def _stuck(self, rank: int, what: str, group: Group, rendezvous: _Rendezvous) -> Diagnostic:
        states = {member: f"waits in {call}" for member, (call, *_) in self._waiting.items()}
        missing = [member for member in group if member not in rendezvous.came]
        return _unmatched(
            [
                f"rank {rank} waits in {what} of ranks {', '.join(map(str, group))}",
                *(f"rank {member} {states.get(member, 'has come to its end')}" for member in missing),
            ]
        )


@dataclass(frozen=True)
class Rank:
    """A rank of a launch: its number, and the group of all ranks that it is in."""

    number: int
    group: RankGroup


class _Local(threading.local):
    rank: Rank | None = None


local = _Local()
"""`local.rank` is the rank of a launch that this thread specialises, None outside of such launches."""


def _unmatched(states: list[str]) -> Diagnostic:
    return diagnose(
        "NKI241",
        "; ".join(states),
        limit="all ranks of a group call the same collectives, in the same order",
        help="call collectives outside of branches that ranks take differently",
    )
