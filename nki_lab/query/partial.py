"""Describes variables of a function whose arguments are unknown by what several runs of it have in common.

Each run assumes other sizes, numbers, dtypes and memories. A size that is the same in all of them does not depend on
these; one that is an argument's size in each is named after it, and bounded by what the function and its instructions
refuse. Everything else is unknown, and is not said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.query.evaluation_cache import Place
from nki_lab.query.fitting import Run, named_symbol

LEAST: Final = 3
"""Runs that have to agree."""
_FACTORS: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512)

V = TypeVar("V")
Numbers = tuple[int, ...]
"""The values of one number in the runs that a place is known from."""


def common_variables(runs: Sequence[Run]) -> dict[Place, Variable]:
    """Return what the runs of a function have in common about its variables, by the places that bind them."""
    fitting = [run for run in runs if run.is_consistent]
    used = fitting if len(fitting) >= LEAST else list(runs)
    if len(used) < LEAST:
        return {}
    bounds = _bounds(runs)
    symbols = {symbol for run in used for symbol in run.assumptions.used}
    found: dict[Place, Variable] = {}
    words: dict[tuple[int, ...], _Words] = {}
    for place in dict.fromkeys(place for run in used for place in run.result.types):
        having = [(number, run.result.types[place]) for number, run in enumerate(used) if place in run.result.types]
        if len(having) < LEAST:
            continue
        numbers = tuple(number for number, _ in having)
        if numbers not in words:
            words[numbers] = _Words([used[number] for number in numbers], symbols, bounds)
        variable = _common([variable for _, variable in having], words[numbers])
        if variable is not None:
            found[place] = variable
    return found


def _common(items: Sequence[Variable], words: _Words) -> Variable | None:
    """Return what values of one name have in common; None where that is nothing."""
    first, kind = items[0], _same(item.kind for item in items)
    if kind is None:
        return None
    if kind == "tensor":
        return _tensor(items, words)
    if all(item == first for item in items):
        return first
    if kind == "loop":
        trips = words.of([item.trips for item in items])
        text = f"{trips} trip{'s' * (trips != '1')}{words.bounds_on([trips])}" if trips else "the variable of a loop"
        return Variable(first.name, text, kind="loop", trips=_same(item.trips for item in items) or 0)
    if kind == "value" and all(item.text.lstrip("-").isdecimal() for item in items):
        return Variable(first.name, words.origin([int(item.text) for item in items]))
    if kind == "register":
        return first
    return Variable(first.name, "depends on the arguments", kind=kind)


def _tensor(items: Sequence[Variable], words: _Words) -> Variable | None:
    """Return what tensors have in common: dtype, memory, and each dimension of which something is known."""
    first = items[0]
    every = [each for item in items for each in (item, *item.others)]
    dtype = _same(item.dtype for item in every)
    memory = _same(item.memory for item in every) or ""
    sizes: tuple[str, ...] = ()
    if _same(len(item.shape) for item in every):
        changing = _changing(items)
        columns = enumerate(zip(*(item.shape for item in items), strict=True))
        sizes = tuple((number not in changing and words.of(column)) or "?" for number, column in columns)
    if set(sizes) == {"?"}:
        sizes = ()
    if dtype is None and not memory and not sizes:
        return None
    shape = tuple(map(int, sizes)) if sizes and all(size.isdecimal() for size in sizes) else ()
    width = (_same(item.partition_bytes for item in items) or 0) if shape else 0
    what = dtype.name if dtype is not None else "tensor"
    parts = [f"{what} in {memory}" if memory else what, *([" × ".join(sizes)] if sizes else [])]
    text = ", ".join(parts) + words.bounds_on(sizes) + ("" if dtype is not None else ", dtype unknown")
    return Variable(first.name, text, shape, dtype, memory, width, "tensor", sizes=() if shape else sizes)


def _changing(items: Iterable[Variable]) -> set[int]:
    """Return the dimensions that have several sizes within a run: in a loop, or in several calls."""
    pairs = ((item.shape, other.shape) for item in items for other in item.others)
    return {
        number
        for shape, other in pairs
        for number, (size, later) in enumerate(zip(shape, other, strict=True))
        if size != later
    }


def _same(values: Iterable[V]) -> V | None:
    """Return the one value that all have; None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


class _Words:
    """Words for numbers of some runs: themselves where they are equal, else names of the sizes that they depend on."""

    def __init__(self, runs: Sequence[Run], symbols: Iterable[str], bounds: Mapping[str, int]) -> None:
        self._names: dict[Numbers, str] = {}
        self._bounds: dict[str, str] = {}
        self._kept: dict[Numbers, str] = {}
        self._symbols: dict[Numbers, str] = {}
        for values, having in _columns(runs, symbols).items():
            symbol = having[0]
            if len(set(values)) < LEAST or not _are_tied(having, runs):
                continue
            name = _bound_name(runs, values) or named_symbol(symbol)
            self._names.setdefault(values, name)
            self._symbols.setdefault(values, named_symbol(symbol))
            if symbol in bounds:
                self._bounds.setdefault(self._names[values], f"{self._names[values]} ≤ {bounds[symbol]}")

    def of(self, values: Sequence[int]) -> str:
        """Return the word for a number; empty where nothing is known of it."""
        key = tuple(values)
        if key not in self._kept:
            self._kept[key] = self._word(key)
        return self._kept[key]

    def origin(self, values: Sequence[int]) -> str:
        """Return what a number that is not the same in all runs comes from, and what bounds it."""
        key = tuple(values)
        if key in self._symbols:
            return self._symbols[key] + self.bounds_on([self._names[key]])
        word = self.of(values)
        return f"{word}{self.bounds_on([word])}" if word else "a number that depends on the arguments"

    def _word(self, values: Numbers) -> str:
        if len(set(values)) == 1:
            return str(values[0])
        if values in self._names:
            return self._names[values]
        for factor in _FACTORS if len(set(values)) >= LEAST else ():
            for known, name in self._names.items():
                if all(value == factor * size for value, size in zip(values, known, strict=True)):
                    return f"{factor}·{name}"
                if all(value * factor == size for value, size in zip(values, known, strict=True)):
                    return f"{name}/{factor}"
        return ""

    def bounds_on(self, words: Iterable[str]) -> str:
        """Return what bounds the sizes that some words speak of, for the end of a text."""
        bounds = [text for name, text in self._bounds.items() if any(_speaks(word, name) for word in words)]
        return "".join(f", {text}" for text in bounds)


def _columns(runs: Sequence[Run], symbols: Iterable[str]) -> dict[Numbers, list[str]]:
    """Return the symbols that all runs assume, in order, by their values in the runs."""
    found: dict[Numbers, list[str]] = {}
    for symbol in sorted(symbols):
        values = tuple(run.assumptions.used[symbol] for run in runs if symbol in run.assumptions.used)
        if len(values) == len(runs):
            found.setdefault(values, []).append(symbol)
    return found


def _are_tied(symbols: Sequence[str], runs: Sequence[Run]) -> bool:
    """Return whether the function demands that symbols be equal; one is equal to itself."""
    ties = {frozenset(tie) for run in runs for tie in run.ties}
    reached, left = {symbols[0]}, set(symbols[1:])
    while near := {symbol for symbol in left if any(frozenset((symbol, other)) in ties for other in reached)}:
        reached |= near
        left -= near
    return not left


def _speaks(word: str, name: str) -> bool:
    return word == name or word.endswith(f"·{name}") or word.startswith(f"{name}/")


def _bound_name(runs: Sequence[Run], values: Numbers) -> str:
    """Return the first name that the function binds to a number; empty where it binds none."""
    texts = [str(value) for value in values]
    for place, variable in runs[0].result.types.items():
        if variable.text == texts[0] and variable.kind == "value":
            others = (run.result.types.get(place) for run in runs[1:])
            if all(other is not None and other.text == text for other, text in zip(others, texts[1:], strict=True)):
                return variable.name
    return ""


def _bounds(runs: Sequence[Run]) -> dict[str, int]:
    """Return the largest values that the function, or an instruction, takes for symbols.

    A limit counts where two runs met it, met no other, and no consistent run is beyond it.
    """
    found: dict[str, int] = {}
    met = Counter(limit for run in runs for limit in run.limits)
    for (symbol, limit), count in met.items():
        others = any(name == symbol and other != limit for name, other in met)
        beyond = any(run.is_consistent and run.assumptions.used.get(symbol, 0) > limit for run in runs)
        if count > 1 and not others and not beyond:
            found[symbol] = limit
    return found
