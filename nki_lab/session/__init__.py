"""Sessions: a kernel's call from arrays to results, and the programs cached between calls."""

from nki_lab.kernel_runtime.path import TripCounts
from nki_lab.session.digests import digest_of
from nki_lab.session.execution import execute, profile, profile_on, specialise
from nki_lab.session.launch import Launch
from nki_lab.session.outcome import Execution, OnError, Timings, not_executed
from nki_lab.session.plans import again, forget
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
    "again",
    "digest_of",
    "execute",
    "forget",
    "not_executed",
    "profile",
    "profile_on",
    "results_of",
    "specialise",
]
