"""Neuron Explorer's Parquet profiles: written from a recording, and read as one."""

from __future__ import annotations

from nki_lab.export.explorer.reading import Profile, read_profile
from nki_lab.export.explorer.writing import write_profile

__all__ = ["Profile", "read_profile", "write_profile"]
