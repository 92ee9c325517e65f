"""The pytest plugin: the tests of a session record the calls of kernels and helpers, where option or project say so.

pytest loads it with the package. It loads nothing of the package before a test has.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nki_lab.call_records.choices import choices

if TYPE_CHECKING:
    import pytest

    from nki_lab.call_records.recorder import Recorder

_OPTION = "--nki-record-signatures"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.getgroup("nki-lab").addoption(
        _OPTION,
        action="store_true",
        help="keep the shapes and values that kernels and their helpers are called with in .nki-lab/signatures.json, "
        "for nki-lab check; the project's record-signatures = true does the same",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take the option."""
    if config.getoption(_OPTION):
        choices.always = True


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing to a later session of the same process."""
    if config.getoption(_OPTION):
        choices.always = False


def pytest_runtest_logstart(nodeid: str) -> None:
    """Name the test that calls come from."""
    choices.origin = nodeid


def pytest_runtest_logfinish() -> None:
    """Name no test outside of tests."""
    choices.origin = ""


def pytest_sessionfinish() -> None:
    """Write what waits."""
    if (recorder := _recorder()) is not None:
        recorder.write()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where calls were written, and where they could not be."""
    recorder = _recorder()
    if recorder is None:
        return
    for place, count in recorder.kept.items():
        terminalreporter.write_line(f"nki-lab: {count} calls recorded in {place}")
    for text in recorder.problems:
        terminalreporter.write_line(text)


def _recorder() -> Recorder | None:
    """Return the recorder, where something has been recorded."""
    module = sys.modules.get("nki_lab.call_records.recorder")
    return None if module is None else module.recorder
