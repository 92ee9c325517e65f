"""The pytest plugin: the kernels of a session's tests run on the simulator, where option or environment say so.

There they can also be checked and drawn, and their calls recorded. pytest loads the plugin with the package. It loads
nothing of the package before a test has, unless it is asked for something.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from nki_lab.call_records.choices import choices
from nki_lab.pytest_plugin import activation

if TYPE_CHECKING:
    from nki_lab.call_records.recorder import Recorder
    from nki_lab.pytest_plugin.kernel_calls import KernelCalls

_RECORD = "--nki-record-signatures"
_CALLS: pytest.StashKey[KernelCalls] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("nki-lab", "kernels of AWS NKI")
    group.addoption(
        "--nki-target",
        metavar="TARGET",
        help="trn1, trn2 or trn3: activate the simulator of nki_lab, for this chip; NKI_SIMULATOR=1 in the "
        "environment activates it for the chip that the environment or the project names",
    )
    group.addoption("--nki-force", action="store_true", help="simulate although a real nki is installed")
    group.addoption(
        "--nki-check",
        action="store_true",
        help="check each call of a kernel: what the device compiler would reject fails the test, warnings are listed",
    )
    group.addoption(
        "--nki-report",
        metavar="DIR",
        help="write a page of the kernel's call for each failed test: at its fault, or the last call",
    )
    group.addoption(
        _RECORD,
        action="store_true",
        help="keep the shapes and values that kernels and their helpers are called with in .nki-lab/signatures.json, "
        "for nki-lab check; the project's record-signatures = true does the same",
    )
    parser.addini("nki_target", "trn1, trn2 or trn3, where neither option nor environment names one", default="")
    parser.addini("nki_precise", "true or false: round after each instruction, as the chip does", default="")
    parser.addini("nki_check", "check each call of a kernel, as --nki-check does", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Activate the simulator before the first conftest.py imports a kernel."""
    activation.begin(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Take the options."""
    config.addinivalue_line(
        "markers", "nki(target=None, precise=None): the chip and the rounding of the kernels that the test calls"
    )
    activation.begin(config, config.option)  # where a conftest.py names the plugin
    if config.getoption(_RECORD):
        choices.always = True
    checked = bool(config.getoption("--nki-check") or config.getini("nki_check"))
    if checked or config.getoption("--nki-report"):
        from nki_lab.pytest_plugin.kernel_calls import KernelCalls

        calls = config.stash[_CALLS] = KernelCalls(config, checked=checked)
        config.pluginmanager.register(calls, "nki-lab-kernel-calls")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing to a later session of the same process."""
    if config.getoption(_RECORD):
        choices.always = False
    if (calls := config.stash.get(_CALLS, None)) is not None:
        calls.close()
    activation.end(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what runs kernels."""
    return activation.described(config)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a marker that says nothing that is understood."""
    activation.marked(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Have the kernels of a test run as its marker says, and name the test that calls come from."""
    choices.origin = item.nodeid
    marks = activation.marked(item)
    try:
        with activation.chosen(marks) if marks else nullcontext():
            return (yield)
    finally:
        choices.origin = ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    """Have errors of fixtures end at the user's lines."""
    return (yield from _stripped())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Have errors of tests end at the user's lines, also those that no kernel encloses."""
    return (yield from _stripped())


def _stripped() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        module = sys.modules.get("nki_lab.dialects.tracebacks")
        if module is not None:
            module.strip(error)
        raise


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
