"""A run as columns: what ran where and when, what it waited for, and the memory it used.

`Recording` is built from arrays or opened from a folder; `schema` declares its tables.
"""

from nki_lab.kernel_runtime.recording.build import Names
from nki_lab.kernel_runtime.recording.columns import Column, Columns
from nki_lab.kernel_runtime.recording.recording import Lane, Recording, Row

__all__ = [
    "Column",
    "Columns",
    "Lane",
    "Names",
    "Recording",
    "Row",
]
