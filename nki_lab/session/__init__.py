"""Sessions: a kernel's call from arrays to results, and the programs cached between calls."""

from nki_lab.kernel_runtime.path import TripCounts
from nki_lab.session.execution import execute, profile, specialise
from nki_lab.session.launch import Launch
from nki_lab.session.outcome import Execution, OnError, Timings, not_executed
from nki_lab.session.plans import forget
from nki_lab.session.results import Results, results_of
from nki_lab.session.values import NotRecorded, RunValues

__all__ = [
    "Execution",
    "Launch",
    "NotRecorded",
    "OnError",
    "Results",
    "RunValues",
    "Timings",
    "TripCounts",
    "execute",
    "forget",
    "not_executed",
    "profile",
    "results_of",
    "specialise",
]
