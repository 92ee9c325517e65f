"""Sweeps: a kernel for each combination of parameters, on several processors, with what each takes as a table."""

from nki_lab.sweeps.progress import Progress
from nki_lab.sweeps.running import sweep
from nki_lab.sweeps.table import Sweep, SweptPoint

__all__ = ["Progress", "Sweep", "SweptPoint", "sweep"]
