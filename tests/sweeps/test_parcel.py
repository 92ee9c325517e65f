"""Kernels and arguments as bytes: what another process does not find is the user's to mend, and has a place."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from nki_lab.diagnostic import NkiError, Span
from nki_lab.sweeps.parcel import packed, unpacked
from nki_lab.sweeps.work import work

PLACE = Span("kernels.py", 7, 1, 7, 2)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An object of a class from a module that exists in this process only."""
    module = ModuleType("made_in_memory")
    exec("class Settings:\n    pass\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_in_memory", module)
    return module.Settings()


def test_a_module_that_a_worker_cannot_import_is_told_with_place_and_remedy(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = packed(settings, "an argument of the kernel", PLACE)
    monkeypatch.delitem(sys.modules, "made_in_memory")
    with pytest.raises(NkiError) as raised:
        unpacked(content)
    (found,) = raised.value.diagnostics
    assert (found.code, found.span) == ("NKI001", PLACE)
    assert found.message.startswith("an argument of the kernel needs what a worker cannot import")
    assert found.message.endswith(": No module named 'made_in_memory'")
    assert "PYTHONPATH" in found.help


def test_the_point_is_a_row_with_that_finding(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = packed(settings, "an argument of the kernel", PLACE)
    monkeypatch.delattr(sys.modules["made_in_memory"], "Settings")
    row = work(content, content)
    assert (row["status"], row["code"], row["file"], row["line"]) == ("failed", "NKI001", "kernels.py", 7)
