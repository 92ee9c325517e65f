"""Machine code of a test run's own, for tests of what the extra `fast` compiles."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nki_lab.kernel_runtime import compiled_code


@contextmanager
def compiled_into(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Keep machine code in a folder; a test run without numba fails rather than passing such tests by."""
    importlib.import_module("numba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_code.choices, "folder", lambda: folder)
        yield patch
