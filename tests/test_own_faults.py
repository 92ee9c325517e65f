"""A mistake of ours tells what a report needs, and where it goes."""

from __future__ import annotations

import platform
import tomllib
from pathlib import Path

import numpy as np

import nki_lab
from nki_lab.diagnostic import render
from nki_lab.own_faults import ISSUES, installed_version, own_fault, versions

ROOT = Path(__file__).parents[1]


def test_the_message_has_versions_and_the_place_for_reports() -> None:
    text = render(own_fault("nki_lab failed with KeyError: 3", limit="it does not"))
    assert text.startswith("NKI901 nki_lab failed with KeyError: 3\n")
    assert ISSUES in text
    for part in (nki_lab.__version__, platform.python_version(), f"numpy {np.__version__}", platform.system()):
        assert part in text


def test_the_place_for_reports_is_that_of_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Issues"] == ISSUES


def test_a_package_that_is_not_installed_is_said_to_be_missing() -> None:
    assert installed_version("no-such-package") == ""
    assert versions().startswith(f"nki_lab {nki_lab.__version__}, Python ")
