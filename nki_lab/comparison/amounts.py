"""An amount before and after, and whether the difference is more than the predictions' error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nki_lab.kernel_runtime.recording import Recording

Unit = Literal["ps", "bytes", "count", "share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Bounds of a run's times as quotients of the predicted ones: its 80 % interval, or 1 and 1 for measured times."""

    low: float
    high: float

    def contains(self, predicted: float, other: float) -> bool:
        """Whether the bounds of a predicted time contain another time."""
        return predicted * self.low <= other <= predicted * self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """An amount of both runs: None where a run does not have it.

    `within_error` is true where one of two times lies in the other one's 80 % interval. It is None where no error is
    known, and for counts and sizes, which have none.
    """

    name: str
    unit: Unit
    before: float | None
    after: float | None
    within_error: bool | None = None

    @property
    def change(self) -> float | None:
        """The later amount less the earlier one; None where one of them is unknown."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def quotient(self) -> float | None:
        """The change as a part of the earlier amount; None of nothing."""
        return None if self.change is None or not self.before else self.change / self.before


def is_profile(recording: Recording) -> bool:
    """Whether a recording was read from the tables of a profile, of a device or of a simulation."""
    return "profile" in recording.summary


def is_measured(recording: Recording) -> bool:
    """Whether the times are from a device."""
    return is_profile(recording) and not recording.summary.get("simulated")


def error_of(recording: Recording) -> Error | None:
    """Return the error of a recording's times; None where it is unknown."""
    if is_measured(recording):
        return Error(low=1.0, high=1.0)
    bounds = recording.summary.get("makespan_interval_ns")
    if not isinstance(bounds, list) or len(bounds) != 2 or not recording.makespan:
        return None
    low, high = (1000 * float(bound) / recording.makespan for bound in bounds)
    return Error(low=low, high=high)


def time(name: str, before: float, after: float, errors: tuple[Error | None, Error | None]) -> Amount:
    """Return a time in picoseconds with what the errors of the two runs say of its difference."""
    one, other = errors
    within = None
    if one is not None and other is not None and before != after:
        within = one.contains(before, after) or other.contains(after, before)
    return Amount(name=name, unit="ps", before=before, after=after, within_error=within)


def of_summaries(name: str, unit: Unit, before: Mapping[str, Any], after: Mapping[str, Any]) -> Amount | None:
    """Return a figure of the summaries; None where neither has it."""
    values = [summary[name] if isinstance(summary.get(name), int | float) else None for summary in (before, after)]
    return None if values == [None, None] else Amount(name=name, unit=unit, before=values[0], after=values[1])
