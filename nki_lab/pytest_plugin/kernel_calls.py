"""The kernels that tests call: what is found in them, and a page of the call for each failed test."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Generator
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pytest

from nki_lab.diagnostic import Diagnostic, NkiError, render
from nki_lab.dialects.kernel import announce
from nki_lab.dialects.launches import LaunchObserver, begin_observation, end_observation
from nki_lab.result import Run
from nki_lab.session import Execution
from nki_lab.testing import KernelWarning

_LONGEST: Final = 120  # characters of a file's name before its suffix
_HASH: Final = 8  # of which so many tell apart tests whose names are cut or spelt alike


class KernelCalls(LaunchObserver):
    """The calls of kernels in the tests of a session: an observer of launches, and a plugin of pytest.

    With `checked`, findings become failures and warnings. Pages are written where the option `--nki-report` says.
    """

    inputs = None
    interactive = False

    def __init__(self, config: pytest.Config, *, checked: bool) -> None:
        self.checked = checked
        self.folder = _folder(config)
        self.timed = self.folder is not None
        self._lock = Lock()
        self._forget()
        begin_observation(self)

    def close(self) -> None:
        """Observe no further calls."""
        end_observation(self)

    def _forget(self) -> None:
        self._last: Run | None = None
        self._failed: Run | None = None
        self._findings: dict[Diagnostic, None] = {}

    # -- calls -------------------------------------------------------------------------------------------------------

    def launched(self, name: str, execution: Execution, arguments: tuple[Any, ...]) -> None:
        """Take the result of a plain call; what it would have printed is printed unless it is checked."""
        if not self.checked and execution.error is None:
            announce(execution.diagnostics)
        self.add(Run(execution, name, arguments))

    def add(self, run: Run) -> None:
        """Take a run."""
        with self._lock:
            if self.timed:
                self._last = run
                self._failed = run if run.error is not None else self._failed
            if self.checked and run.error is None:  # a fault is the test's own affair: it may expect it
                found = (item for item in run.diagnostics if item.severity in ("error", "warning"))
                self._findings.update(dict.fromkeys(found))

    # -- tests -------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        """Begin a test with no calls."""
        self._forget()
        try:
            return (yield)
        finally:
            self._forget()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Turn findings into warnings, and into the failure of a test that passed otherwise."""
        result = yield
        found = list(self._findings)
        for item in found:
            if item.severity == "warning":
                warnings.warn_explicit(_line(item), KernelWarning, item.file or "kernel", item.line)
        errors = [item for item in found if item.severity == "error"]
        if errors:
            pytest.fail("\n\n".join(render(item) for item in errors), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Hand findings and pages to the report, which processes of a session send to the one that prints."""
        report = yield
        if report.when == "call" and self._findings:
            vars(report)["nki_findings"] = [found.as_dict() for found in self._findings]
        if report.failed and self.folder is not None and call.excinfo is not None:
            run = self._run_of(call.excinfo.value)
            if run is not None:
                vars(report)["nki_page"] = self._written(run, f"{item.nodeid}-{report.when}", self.folder)
        return report

    def _run_of(self, error: BaseException) -> Run | None:
        """Return the run that ended with the error of a test, else the last one."""
        cause: BaseException | None = error
        while cause is not None:
            if self._failed is not None and cause is self._failed.error:
                return self._failed
            cause = cause.__cause__ or cause.__context__
        return self._last

    def _written(self, run: Run, name: str, folder: Path) -> str:
        """Write the page of a run; returns its path, or why there is none."""
        if not run.has_recording:
            return f"{run.name} issued no instruction that could be drawn"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return str(run.to_html(folder / f"{file_name(name)}.html"))
        except (OSError, NkiError) as error:
            return f"no page of {run.name}: {error}"

    # -- the end -----------------------------------------------------------------------------------------------------

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List findings, each once, and pages."""
        reports = [report for kind in terminalreporter.stats.values() for report in kind]
        found: dict[str, list[str]] = {}
        for report in reports:
            for data in getattr(report, "nki_findings", ()):
                item = Diagnostic.from_dict(data)
                found.setdefault(f"{item.severity}: {render(item)}", []).append(report.nodeid)
        if found:
            terminalreporter.section("NKI findings")
            for text, tests in found.items():
                more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
                terminalreporter.write_line(f"{text}\n  in {tests[0]}{more}\n")
        pages = {report.nodeid: report.nki_page for report in reports if hasattr(report, "nki_page")}
        if pages:
            terminalreporter.section("NKI kernels of failed tests")
            for test, page in pages.items():
                terminalreporter.write_line(f"{test}\n  {page}")


def _folder(config: pytest.Config) -> Path | None:
    """Return the folder for pages, made where it does not exist; pytest.UsageError where that is not possible."""
    given = config.getoption("--nki-report")
    if not given:
        return None
    folder = (config.invocation_params.dir / str(given)).resolve()
    config.option.nki_report = str(folder)  # for the processes of the session, wherever they run
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--nki-report {given}: {error.strerror or error}") from None
    return folder


def file_name(test: str) -> str:
    """Return a name for the file of a test, of letters, digits, dots and dashes: like the test's, and no other's."""
    text = re.sub(r"[^A-Za-z0-9.]+", "-", test).strip("-.")
    return f"{text[-_LONGEST + _HASH + 1 :]}-{hashlib.sha256(test.encode()).hexdigest()[:_HASH]}"


def _line(item: Diagnostic) -> str:
    return "; ".join(filter(None, (f"{item.code} {item.message}", item.help)))
