"""Finds values for the arguments of a function that it does not refuse, and that its instructions can work with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.kernel_runtime.interpreter import Assumptions, Demand, Evaluation
from nki_lab.query.reach import Operation, operation_at

ROUNDS: Final = 8
"""Evaluations in which values are brought closer to what a function demands."""
_LARGEST: Final = 1 << 14
"""Values are not raised above this."""
_EQUAL: Final = "NKI203"
"""The code of sizes that have to be equal; other sizes that are measured have an upper limit."""


Evaluate = Callable[[Assumptions], Evaluation]
BySpan = Mapping[Span | None, Sequence[Diagnostic]]


def by_span(found: Iterable[Diagnostic]) -> BySpan:
    """Return findings by their places."""
    places: dict[Span | None, list[Diagnostic]] = {}
    for item in found:
        places.setdefault(item.span, []).append(item)
    return places


@dataclass(frozen=True, eq=False)
class Run:
    """An evaluation, and what it assumed; `demanded` are the symbols whose values its function asked for.

    `limits` are symbols with the largest values that were asked for, `ties` those that have to be equal; both of this
    run and of those that led to it.
    """

    assumptions: Assumptions
    result: Evaluation
    demanded: frozenset[str] = frozenset()
    limits: frozenset[tuple[str, int]] = frozenset()
    ties: frozenset[tuple[str, str]] = frozenset()

    @cached_property
    def by_span(self) -> BySpan:
        """Return the findings by their places."""
        return by_span(self.result.diagnostics)

    @cached_property
    def errors(self) -> Mapping[Operation | None, Sequence[Diagnostic]]:
        """Return the errors by the operations that they are about."""
        operations = sorted(self.result.operations)
        found: dict[Operation | None, list[Diagnostic]] = {}
        for item in self.result.diagnostics:
            if item.span is not None and item.severity == "error":
                found.setdefault(operation_at(item.span, operations), []).append(item)
        return found

    @cached_property
    def has_fault(self) -> bool:
        return any(item.outcome == "fault" for item in self.result.diagnostics)

    @property
    def is_consistent(self) -> bool:
        """Return whether the function refused nothing that was assumed."""
        return not self.assumptions.refused

    @property
    def sizes(self) -> str:
        """The sizes and numbers that are assumed: `x (1024, 512), n = 4`."""
        shapes: dict[str, dict[int, int]] = {}
        for symbol, value in self.assumptions.used.items():
            name, _, dim = symbol.rpartition(".")
            shapes.setdefault(name if dim.isdigit() else symbol, {})[int(dim) if dim.isdigit() else -1] = value
        return ", ".join(
            f"{name} = {sizes[-1]}" if -1 in sizes else f"{name} {tuple(size for _, size in sorted(sizes.items()))}"
            for name, sizes in shapes.items()
        )


def fitted(
    evaluate: Evaluate,
    variant: int,
    seed: int,
    answers: Mapping[str, bool] | None = None,
    literals: Sequence[int] | None = None,
) -> Run:
    """Return an evaluation with values that a function and its instructions ask for, as far as these can be found.

    Values are drawn for a `seed`, independent of each other, and then changed where a size is found wrong: equal values
    can be told apart, so that a size in a finding shows its symbol. With `literals`, the numbers of the text, values
    are unusual ones: very small and very large, odd, or one of these numbers.
    """
    draw = _Draw(variant, seed) if literals is None else _Unusual(variant, seed, literals)
    values: dict[str, int] = {}
    demanded: set[str] = set()
    limits: set[tuple[str, int]] = set()
    ties: set[tuple[str, str]] = set()
    tried: dict[str, tuple[_Place, int]] = {}
    hopeless: set[_Place] = set()
    best: Run | None = None
    for _ in range(ROUNDS):
        assumptions = Assumptions(variant, values, settled=True, answers=dict(answers or {}), draw=draw)
        run = Run(assumptions, evaluate(assumptions), frozenset(demanded))
        wanted = list(_demands(run))
        for _, demand in wanted:
            _note(demand, assumptions.used, limits, ties)
        best = run if best is None or _faults(run) <= _faults(best) else best
        changes: dict[str, int] = {}
        unmet = {place for place, _ in wanted if place is not None}
        for symbol, (failed, value) in tried.items():
            if failed in unmet:  # another value of the symbol did not help: the first one is as good
                hopeless.add(failed)
                changes[symbol] = value
        tried = {}
        for place, demand in wanted:
            if place in hopeless:
                continue
            change = _change(demand, assumptions.used, draw)
            if change is not None and change[0] not in changes and change[1] != assumptions.used[change[0]]:
                changes[change[0]] = change[1]
                if place is not None:
                    tried[change[0]] = place, assumptions.used[change[0]]
        if not changes:
            break
        values = {**assumptions.used, **changes}
        demanded |= set(changes)
    assert best is not None
    return replace(best, limits=frozenset(limits), ties=frozenset(ties))


def _faults(run: Run) -> tuple[int, int]:
    return run.assumptions.refused, sum(item.code[3] in "23" for item in run.result.diagnostics)


_Place = tuple[str, Span | None]
"""A finding as far as it stays the same with other sizes: its code and its place."""


def _demands(run: Run) -> Iterator[tuple[_Place | None, Demand]]:
    """Yield what a function demands by its asserts, without a place, and by its instructions."""
    yield from ((None, demand) for demand in run.assumptions.demands)
    for item in run.result.diagnostics:
        if item.measured is not None:
            yield (item.code, item.span), Demand(item.code != _EQUAL, *item.measured)


def _note(demand: Demand, used: Mapping[str, int], limits: set[tuple[str, int]], ties: set[tuple[str, str]]) -> None:
    """Enter what a demand says about symbols, as far as their values show which ones it is about."""
    at_most, left, right = demand
    one, other = ([symbol for symbol, value in used.items() if value == side] for side in (left, right))
    if at_most and left > right > 0 and len(one) == 1:
        limits.add((one[0], right))
    elif not at_most and left != right and len(one) == len(other) == 1:
        ties.add((one[0], other[0]))


def named_symbol(symbol: str) -> str:
    """Return a symbol as a kernel spells it: `x.shape[0]` for a size, `n` for a number."""
    name, _, dim = symbol.rpartition(".")
    return f"{name}.shape[{dim}]" if dim.isdigit() else symbol


def _change(demand: Demand, used: Mapping[str, int], draw: _Draw) -> tuple[str, int] | None:
    """Return a symbol and the value that it should have to meet a demand; None where no symbol is seen in it."""
    at_most, left, right = demand
    if left < 1 or right < 1 or (at_most and left <= right):
        return None
    sides = [(left, right)] if at_most else sorted([(left, right), (right, left)], reverse=True)
    for have, want in sides:
        for symbol, value in used.items():
            if value == have and (at_most or want <= _LARGEST):
                return symbol, draw.below(want) if at_most else want
    for have, want in sides:
        for symbol, value in sorted(used.items(), key=lambda item: -item[1]):
            if value > 1 and have % value == 0:
                times = have // value
                if at_most and want >= times:
                    return symbol, draw.below(want // times)
                if not at_most and want % times == 0 and want // times <= _LARGEST:
                    return symbol, want // times
    return None


class _Draw:
    """Draws values of symbols; those of even and of odd variants differ.

    From seed 4 on, half of the sizes are below 128, each in every other seed: a minimum of a size and a tile is then
    sometimes the one and sometimes the other.
    """

    def __init__(self, variant: int, seed: int) -> None:
        self.odd = variant % 2
        self.seed = seed
        self.large = seed % 4 > 1

    def __call__(self, symbol: str, is_number: bool) -> int:
        choice = random.Random(f"{self.seed} {symbol}")
        if is_number and not self.large:
            return 2 * choice.randint(1, 4) + self.odd
        if self.seed > 3 and (random.Random(symbol).randrange(2) + self.seed) % 2 == 0:
            return 2 * choice.randint(4, 60) + self.odd
        return 128 * (2 * choice.randint(2, 12) + self.odd)

    def below(self, limit: int) -> int:
        """Return a value of at most `limit`."""
        choice = random.Random(f"{self.seed} {limit}")
        parts = (limit, limit // 2, limit // 4) if not self.odd else (limit * 3 // 4, limit * 3 // 8, limit * 3 // 16)
        return max(1, parts[choice.randrange(3)] if self.seed > 3 else parts[0])


UNUSUAL: Final = 14
"""Seeds of unusual values; from 9 on each symbol has a sort of its own.

In those from `UNUSUAL` on all sizes are one number of the text: loops run once, and comparisons hold.
"""


class _Unusual(_Draw):
    """Draws values that rounding, `min` and `max`, and comparisons with numbers of the text treat otherwise."""

    def __init__(self, variant: int, seed: int, literals: Sequence[int]) -> None:
        super().__init__(variant, seed)
        near = {number + step for number in literals for step in (-1, 0, 1)} | {number * 2 for number in literals}
        self.exact = [number for number in literals if 4 < number <= _LARGEST] or [128]
        self.literals = sorted(number for number in near if 0 < number <= _LARGEST) or [1]

    def __call__(self, symbol: str, is_number: bool) -> int:
        if self.seed >= UNUSUAL:
            return 1 if is_number else self.exact[(self.seed - UNUSUAL) % len(self.exact)]
        choice = random.Random(f"unusual {self.seed} {symbol}")
        sort = self.seed if self.seed < 9 else choice.randrange(9)
        if sort == 0:
            return 1 if is_number else choice.randint(1, 8)
        if sort == 1:
            return 2 * choice.randint(4, 31) + 1
        if sort == 2:
            return 1 << choice.randint(0, 6)
        if sort == 3:
            return 2 * choice.randint(64, 1000) + 1
        if sort == 4:
            return 4096 * choice.randint(1, 3)
        if sort == 5:
            return 2 * choice.randint(2048, 8000) + 1
        if sort == 6:
            return 128 * choice.randrange(1, 8, 2)
        return choice.choice(self.literals)
