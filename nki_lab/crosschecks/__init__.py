"""Crosschecks: a kernel on the simulator of nki_lab and on the installed NKI, with the same inputs."""

from nki_lab.crosschecks.crosschecking import crosscheck
from nki_lab.crosschecks.differences import Crosscheck, InstructionDifference, TensorDifference

__all__ = ["Crosscheck", "InstructionDifference", "TensorDifference", "crosscheck"]
