"""Bounds and failures of an evaluation: hostile or endless source ends in a diagnostic, in bounded time and memory."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.own_faults import own_fault

_LOOK: Final = 1024  # steps between two questions whether to stop
INSTRUCTION: Final = 32
"""Steps of an instruction that is recorded."""
FAULT: Final = 32
"""Steps of an exception that is raised, described and reported."""
ALLOCATION: Final = 4
"""Steps of a tensor that is made."""
CALL: Final = 4
"""Steps of entering a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The steps and sizes that one evaluation may use.

    `steps` counts statements, loop iterations and calls, instructions and faults as several, and large values by their
    size; a step takes some microseconds, and no clock is read: equal texts have equal findings on every machine.
    `calls` is the depth of inlined calls; `items`, `characters` and `bits` bound one container, text and integer.
    `stop` is asked now and then; where it says True the evaluation ends in `Stopped`. `begun` is told the name of each
    kernel that is evaluated, and "" after it. `told` is given what has been found so far, as often as `stop` is asked.
    """

    steps: int = 4_000_000
    calls: int = 64
    items: int = 1_000_000
    characters: int = 1_000_000
    bits: int = 1024
    stop: Callable[[], bool] | None = field(default=None, compare=False)
    begun: Callable[[str], None] | None = field(default=None, compare=False)
    told: Callable[[Sequence[Diagnostic]], None] | None = field(default=None, compare=False)


class Stopped(BaseException):
    """Ends an evaluation that nobody waits for any more."""


class OverBudget(BaseException):
    """Ends the evaluation: the steps are used up. Not an Exception: nothing in between may swallow it."""

    def __init__(self, reason: str, node: ast.AST | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.node = node


class TooLarge(Exception):  # noqa: N818 - a value, not a mistake of the user's
    """One value would be larger than the budget allows; it counts as unknown."""


class Meter:
    """Counts the steps of one evaluation, which adds to `findings`."""

    __slots__ = ("budget", "findings", "look_at", "most", "node", "steps")

    def __init__(self, budget: Budget, findings: Sequence[Diagnostic] = ()) -> None:
        self.budget = budget
        self.findings = findings
        self.steps = 0
        self.most = budget.steps
        self.look_at = min(_LOOK, self.most)
        self.node: ast.AST | None = None

    def spend(self, steps: int) -> None:
        """Use `steps`; OverBudget where they are used up."""
        self.steps += steps
        if self.steps >= self.look_at:
            self.look()

    def restart(self, budget: Budget) -> None:
        """Count from zero, with another budget."""
        self.budget, self.most = budget, budget.steps
        self.steps, self.look_at = 0, min(_LOOK, self.most)

    @contextmanager
    def limited(self, steps: int) -> Iterator[None]:
        """Allow no more than `steps` while this lasts; what is evaluated afterwards has those of the budget again."""
        before, self.most = self.most, min(self.most, self.steps + steps)
        self.look_at = min(self.look_at, self.most)
        try:
            yield
        finally:
            self.most, self.look_at = before, min(self.steps + 1, before)

    def look(self) -> None:
        """Compare the steps with the budget, tell what has been found, and ask whether to stop."""
        if self.steps >= self.most:
            raise OverBudget(f"{self.most} steps", self.node)
        if self.budget.told is not None:
            self.budget.told(self.findings)
        if self.budget.stop is not None and self.budget.stop():
            raise Stopped
        self.look_at = min(self.steps + _LOOK, self.most)

    def sized(self, count: int) -> int:
        """Return `count` items of a container, paid for; TooLarge beyond the budget."""
        _check(count, self.budget.items, "a container of {} items")
        self.spend(count >> 3)
        return count

    def text(self, length: int) -> int:
        """Return `length` characters of a text, paid for; TooLarge beyond the budget."""
        _check(length, self.budget.characters, "a text of {} characters")
        self.spend(length >> 6)
        return length

    def bits(self, count: int) -> None:
        """Raise TooLarge where an integer of `count` bits is beyond the budget."""
        _check(count, self.budget.bits, "an integer of {} bits")

    def items(self, values: Any) -> list[Any]:
        """Return the items of an iterable, which may be endless."""
        found: list[Any] = []
        stream = iter(values)
        while part := list(islice(stream, 4096)):
            found += part
            self.sized(len(found))
            self.spend(len(part) >> 1)
        return found

    def walked(self, value: Any) -> Any:
        """Return `value`, after paying for a walk through its containers and texts.

        Lists that hold the same list twice, again and again, are small in memory and endless to print or compare; so
        are those that hold the same long text many times.
        """
        if type(value) not in _CONTAINERS:
            if type(value) in _TEXTS:
                self.spend(len(value) >> 6)
            return value
        stack, seen, most = [value], 0, self.budget.items >> 3
        while stack:
            item = stack.pop()
            if type(item) is slice:
                stack += (item.start, item.stop, item.step)
            elif type(item) in _CONTAINERS:
                seen += len(item) + 1
                if seen <= most:
                    stack.extend((*item.keys(), *item.values()) if type(item) is dict else item)
            elif type(item) in _TEXTS:
                seen += len(item) >> 4
            if seen > most:
                self.spend(seen >> 3)  # the walk so far took its time
                raise TooLarge("a nested container")
        self.spend(seen >> 3)
        return value

    def ends(self, value: Any) -> bool:
        """Return whether a walk through a value, which is paid for, comes to its end."""
        try:
            self.walked(value)
        except TooLarge:
            return False
        return True


_CONTAINERS = frozenset((list, tuple, dict, set, frozenset, slice))
_TEXTS = frozenset((str, bytes))


def _check(count: int, most: int, message: str) -> None:
    """Raise TooLarge with a count beyond the budget in its message: huge ones as a power of two."""
    if count > most:
        raise TooLarge(message.format(count if count < 1 << 64 else f"2**{count.bit_length() - 1} or more"))


class FunctionExit(BaseException):
    """Leaves a function of the user's after a failing assert or a raise that has been reported."""


class PendingException(BaseException):
    """Carries a fault inside a `try` with handlers to them."""

    def __init__(self, error: Exception, findings: tuple[Diagnostic, ...]) -> None:
        super().__init__(error)
        self.error = error
        self.findings = findings


class Unobservable(Exception):  # noqa: N818 - no mistake of the user's: a run has values, an evaluation has none
    """Refuses to read what is not known: a tensor's values, the items of a value that is unknown."""


def kernel_raised(error: Exception) -> Diagnostic:
    """Return the finding for an exception of the kernel's own Python, in the tracer's words; a note is its help."""
    kind = type(error).__name__
    text = f"the kernel raised {kind}: {error}" if str(error) else f"the kernel raised {kind}"
    if isinstance(error, AssertionError):
        hint = "the kernel's own assert does not hold for these arguments"
    else:
        near = next(iter(getattr(error, "__notes__", ())), "")
        hint = near or "specialisation runs the kernel as Python; the error is in its own code"
    return diagnose("NKI007", text, help=hint)


def budget_reached(message: str) -> Diagnostic:
    """Return the NKI120 finding."""
    return diagnose(
        "NKI120",
        message,
        limit="an editor answers in bounded time and memory",
        help="run the kernel to check the rest",
    )


def internal_error(error: Exception) -> Diagnostic:
    """Return the finding for an error that is none of the user's."""
    return own_fault(
        f"nki_lab failed with {type(error).__name__}: {error}; a run is not affected",
        limit="nothing that a file contains makes the evaluator fail",
    )
