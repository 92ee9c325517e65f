"""When everything happens: the walk through a scheduled program, its columns, sums and critical path."""

from nki_lab.kernel_runtime.timing.account import LaneTime, Timing
from nki_lab.kernel_runtime.timing.costs import VariantCost, costs_of
from nki_lab.kernel_runtime.timing.counterfactual import makespans_without
from nki_lab.kernel_runtime.timing.efficiency import cadence, curve
from nki_lab.kernel_runtime.timing.path import Path
from nki_lab.kernel_runtime.timing.walk import Walk, makespan_of, walk
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, STALL_REASONS

__all__ = [
    "CONFIDENCES",
    "STALL_REASONS",
    "LaneTime",
    "Path",
    "Timing",
    "VariantCost",
    "Walk",
    "cadence",
    "costs_of",
    "curve",
    "makespan_of",
    "makespans_without",
    "walk",
]
