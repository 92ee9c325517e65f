"""The files whose changes on the disk count, beside those that are open."""

from __future__ import annotations

from typing import Final

from nki_lab.query.source_tree import SUFFIXES

SETTINGS: Final = ("pyproject.toml", "pyvenv.cfg", "setup.cfg", "setup.py", ".pth")
"""Ends of the names of files that decide on settings, and on where imports lead."""
WATCHED: Final = tuple(f"**/{'*' * name.startswith('.')}{name}" for name in (*SUFFIXES, *SETTINGS))
"""The files whose changes the editor is asked to report."""
