"""NKI705: an engine works while another one, which could take a part of it, stands still."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.spec import Use
from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.issue.legality import is_legal
from nki_lab.kernel_runtime.timing.costs import cost_of
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES
from nki_lab.quantities import share
from nki_lab.rules.program_facts import Column, Mask
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts

_ENGINES: Final = ("vector", "scalar", "gpsimd")
_GUESS: Final = CONFIDENCES.index("guess")
_TRIES: Final = 2  # pairs of engines that are timed


class _Move(NamedTuple):
    """Some ops of `behind` that `engine` would take, as many as give both the same work."""

    behind: str
    engine: str
    ops: Mask
    share: float
    relief: float  # picoseconds less for the engine behind


@timed_rule("NKI705")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that another engine for a part of its instructions would make faster, at the
    instruction that costs it most.

    The gain is that of a copy of the program in which the other engine takes as many of them as give both the same
    work, spread evenly over instructions or over the iterations of a loop.
    """
    best: tuple[int, _Move] | None = None
    for move in sorted(_moves(timed), key=lambda item: -item.relief)[:_TRIES]:
        if timed.is_worthwhile(int(move.relief)) and timed.is_worthwhile(int(timed.path_time[move.ops].sum())):
            now = timed.timing.makespan
            gain = now - min([now, *(_moved(timed, move, rows) for rows in _choices(timed, move))])
            best = max(best or (0, move), (gain, move), key=lambda item: item[0])
    if best is None or (saving := timed.saving_of(best[1].ops, best[0])) is None:
        return
    move, facts = best[1], timed.facts
    behind, ahead = (share(_use(timed, engine)) for engine in (move.behind, move.engine))
    yield facts.report(
        "NKI705",
        saving.first,
        f"{facts.name(saving.first)}: the {move.behind} engine is at work {behind} of the time, "
        f"{move.engine} {ahead}; {share(move.share)} of such instructions there would gain "
        f"{saving.gain}",
        note=timed.shape(saving.first),
        limit="engines run side by side: a kernel is as fast as the one with most to do",
        use=f"pass engine=nisa.engine.{move.engine} in some iterations",
        related=saving.related,
        gain=saving.share,
    )


def _use(timed: TimedFacts, engine: str) -> float:
    """Return the share of the time in which an engine is at work, over all cores."""
    return _busy(timed, engine) / (timed.timing.makespan * timed.program.cores)


def _busy(timed: TimedFacts, engine: str) -> int:
    return sum(lane.busy for lane in timed.timing.lanes if lane.name == engine)


def _moves(timed: TimedFacts) -> list[_Move]:
    found = []
    program = timed.program
    counts = np.bincount(timed.facts.variant, minlength=len(program.variants))
    for behind in _ENGINES:
        for engine in _ENGINES:
            surplus = _busy(timed, behind) - _busy(timed, engine)
            if engine == behind or not timed.is_worthwhile(surplus // (2 * program.cores)):
                continue
            times = {
                variant.id: cost_of(program.arch, Variant(0, use)).interval
                for variant in program.variants
                if variant.engine == behind and counts[variant.id] and (use := _elsewhere(variant, engine)) is not None
            }
            here = sum(int(counts[number]) * timed.costs[number].interval for number in times)
            there = sum(int(counts[number]) * time for number, time in times.items())
            if here:
                share = min(1.0, surplus / (here + there))
                ops = np.isin(timed.facts.variant, list(times)) & timed.own
                found.append(_Move(behind, engine, ops, share, share * here / program.cores))
    return found


def _elsewhere(variant: Variant, engine: str) -> Use | None:
    """Return the same call on another engine; None where it cannot run there, or its cost there is a guess."""
    use = variant.use
    if engine not in variant.instruction.engines or "engine" not in variant.instruction.operands:
        return None
    other = Use(use.instruction, use.arch, use.types, {**use.attrs, "engine": enums.engine[engine]}, {})
    if not is_legal(other):
        return None
    return None if cost_of(use.arch, Variant(0, other)).confidence == _GUESS else other


def _choices(timed: TimedFacts, move: _Move) -> list[Column]:
    """Return sets of ops that a move may take: of all ops, of inner iterations, and of outer ones, each evenly."""
    rows = np.flatnonzero(move.ops)
    inner = np.frombuffer(timed.program.op_iteration, np.int32)[rows].astype(np.int64)
    parents = [item.parent for item in timed.program.iterations]
    outermost = list(range(len(parents)))
    for number, parent in enumerate(parents):  # parents come first
        if parent >= 0:
            outermost[number] = outermost[parent]
    outer = np.array([*outermost, -1], np.int64)[inner]
    found: list[Column] = []
    for turns in (np.arange(len(rows)), inner, outer):
        _, turn = np.unique(turns, return_inverse=True)
        steps = np.floor(np.arange(int(turn.max(initial=0)) + 2) * move.share + 1e-9)
        chosen = rows[(np.diff(steps) > 0)[turn]]
        if len(chosen) and not any(np.array_equal(chosen, other) for other in found):
            found.append(chosen)
    return found


def _moved(timed: TimedFacts, move: _Move, chosen: Column) -> int:
    """Return the makespan in picoseconds with the move of some ops."""
    listing = Listing(timed.program)
    targets = {number: listing.on_engine(number, move.engine) for number in distinct(listing.variant[chosen]).tolist()}
    listing.variant[chosen] = [targets[number] for number in listing.variant[chosen].tolist()]
    return timed.reordered(listing.built())
