"""Runs of kernels and what they leave: `run`, `profile`, `compile`, `check`, `open`, and the results they give."""

from nki_lab.kernel_runtime.issue.arguments import TensorSpec, spec
from nki_lab.result.calls import check, compile, open, profile, run, run_ranks  # noqa: A004 - the contract's names
from nki_lab.result.outcome import Run
from nki_lab.result.ranks import RankRuns
from nki_lab.result.recorded import Recorded, SavedRun

__all__ = [
    "RankRuns",
    "Recorded",
    "Run",
    "SavedRun",
    "TensorSpec",
    "check",
    "compile",
    "open",
    "profile",
    "run",
    "run_ranks",
    "spec",
]
