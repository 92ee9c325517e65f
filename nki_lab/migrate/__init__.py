"""Kernels of Beta 1 and of earlier releases rewritten for the current dialect, where that is safe."""

from nki_lab.migrate.migration import Migrated, line_edits, migrated
from nki_lab.migrate.rows import ROWS, Row

__all__ = ["ROWS", "Migrated", "Row", "line_edits", "migrated"]
