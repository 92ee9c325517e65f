"""The ranks of one launch: each runs in a thread of its own, and meets the others in collectives.

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
class _Meeting:
    """One call of a collective by the ranks of a group."""

    came: dict[int, tuple[str, Any]] = field(default_factory=dict)
    left: int = 0


class World:
    """What `size` ranks hand to each other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._changed = threading.Condition()
        self._meetings: dict[tuple[Group, int], _Meeting] = {}
        self._calls: dict[tuple[Group, int], int] = {}  # how often a rank has called collectives of a group
        self._waiting: dict[int, tuple[str, _Meeting, Group]] = {}
        self._ended: set[int] = set()

    def exchange(self, rank: int, group: Group, what: str, data: Any) -> dict[int, Any]:
        """What each rank of `group` hands in at this call, by rank; `what` they all call must be the same."""
        with self._changed:
            number = self._calls[group, rank] = self._calls.get((group, rank), -1) + 1
            meeting = self._meetings.setdefault((group, number), _Meeting())
            meeting.came[rank] = (what, data)
            self._waiting[rank] = (what, meeting, group)
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: len(meeting.came) == len(group) or self._is_stuck())
                complete = len(meeting.came) == len(group)
                found = None if complete else self._stuck(rank, what, group, meeting)
            finally:
                del self._waiting[rank]
        if found is not None:
            raise error_of(found)
        called = {name for name, _ in meeting.came.values()}
        if len(called) > 1:
            said = "; ".join(f"rank {member} calls {meeting.came[member][0]}" for member in group)
            raise error_of(_apart(said))
        with self._changed:
            meeting.left += 1
            if meeting.left == len(group):
                del self._meetings[group, number]
        return {member: data for member, (_, data) in meeting.came.items()}

    def leave(self, rank: int) -> None:
        """A rank has come to its end, or failed."""
        with self._changed:
            self._ended.add(rank)
            self._changed.notify_all()

    def _is_stuck(self) -> bool:
        """Whether nobody is left who could complete a meeting."""
        if any(len(meeting.came) == len(group) for _, meeting, group in self._waiting.values()):
            return False
        return len(self._ended) + len(self._waiting) == self.size

    def _stuck(self, rank: int, what: str, group: Group, meeting: _Meeting) -> Diagnostic:
        said = [f"rank {rank} waits in {what} of ranks {', '.join(map(str, group))}"]
        for member in group:
            if member in meeting.came:
                continue
            if member in self._waiting:
                said.append(f"rank {member} waits in {self._waiting[member][0]}")
            else:
                said.append(f"rank {member} has come to its end")
        return _apart("; ".join(said))


@dataclass(frozen=True)
class Rank:
    """A rank of a launch: its number, and the world that it is in."""

    number: int
    world: World


class _Local(threading.local):
    rank: Rank | None = None


local = _Local()
"""`local.rank` is the rank of a launch that this thread specialises, None outside of such launches."""


def _apart(said: str) -> Diagnostic:
    return diagnose("NKI241", said, limit="all ranks of a group call the same collectives, in the same order",
                    help="call collectives outside of branches that ranks take differently")  # fmt: skip
