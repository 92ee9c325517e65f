"""Each name of Beta 1 runs, or is refused by a code that says what to use in its place."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import neuronxcc
import pytest

from nki_lab.diagnostic import NkiError
from tests.every import for_each

assert neuronxcc

_NAMES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "nki_beta1.json").read_text(encoding="utf-8"))[
    "items"
]
REFUSED = {
    "neuronxcc.nki.FrameworkKernel",
    "neuronxcc.nki.compiler.allocation_scope",
    "neuronxcc.nki.isa.builtin_custom_op",
    "neuronxcc.nki.language.gemm_grid",
    "neuronxcc.nki.language.gemm_stationary_grid",
    "neuronxcc.nki.typing.scalar",
}


def resolved(name: str) -> Any:
    """Return the object of a dotted name, from the longest part of it that is a module."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_the_inventory_has_each_name_once() -> None:
    names = [item["qualname"] for item in _NAMES]
    assert len(names) == len(set(names)) == 206


@for_each([item["qualname"] for item in _NAMES])
def test_each_name_runs_or_says_what_to_use(name: str) -> None:
    if name not in REFUSED:
        assert resolved(name) is not None
        return
    with pytest.raises(NkiError) as caught:
        resolved(name)
    (found,) = caught.value.diagnostics
    assert found.code == "NKI010"
    assert found.help
    assert "other functions of neuronxcc" not in found.help


@for_each([item for item in _NAMES if item["qualname"] not in REFUSED and "(" in item["signature"]])
def test_documented_parameters_are_accepted(item: dict[str, Any]) -> None:
    found = resolved(item["qualname"])
    if not callable(found) or isinstance(found, type):
        return
    have = inspect.signature(found).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in have.values()):
        return
    listed = item["signature"].partition("(")[2].rpartition(")")[0]
    wanted = [part.partition("=")[0].strip() for part in listed.split(",")]
    assert {name for name in wanted if name.isidentifier()} <= set(have), (wanted, list(have))
