"""Finds what is wrong for some arguments of a function, with values that show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.interpreter import Assumptions, Evaluation
from nki_lab.query.fitting import Evaluate, Run, named_symbol

MOST_SYMBOLS: Final = 24
"""Sizes and numbers of one function that are varied."""


def possible(found: Sequence[Run], evaluate: Evaluate) -> Iterator[tuple[Evaluation, Diagnostic]]:
    """Yield findings that a function has for other sizes than those that fit it: one at each place, as information.

    One size or number is changed at a time, to others that the function does not refuse. The message tells the first
    value that shows it: "for x.shape[0] = 100: ...".
    """
    fitting = [run for run in found if run.assumptions.draw is not None and run.is_consistent]
    if not fitting:
        return
    base = min(fitting, key=lambda run: len(run.result.diagnostics))
    seen = {(item.code, item.span) for run in found for item in run.result.diagnostics if run in fitting}
    for symbol, value in list(base.assumptions.used.items())[:MOST_SYMBOLS]:
        for other in _others(value):
            values = {**base.assumptions.used, symbol: other}
            assumptions = Assumptions(base.assumptions.variant, values, settled=True, draw=base.assumptions.draw)
            result = evaluate(assumptions)
            for item in result.diagnostics if not assumptions.refused else ():
                if item.outcome != "advice" and item.code[3] in "23" and (item.code, item.span) not in seen:
                    seen.add((item.code, item.span))
                    message = f"for {named_symbol(symbol)} = {other}: {item.message}"
                    yield result, replace(item, message=message, severity="information")


def _others(value: int) -> list[int]:
    """Return values to try instead: some that are no multiples of a tile, and twice as much."""
    tried = (100, value - 28, value + 1, 2 * value) if value > 16 else (1, value + 1, 2 * value)
    return [other for other in dict.fromkeys(tried) if other > 0 and other != value]
