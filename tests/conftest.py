"""Both dialects are importable in every test module, at its top; drawn tests have one of two depths.

What failed is printed at once, so that a run that is cut off has said it. Profiles of tests are not kept on disk. Both depths draw the same values every time and have no deadlines; new draws are `make fuzz`.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

import nki_lab
from nki_lab.kernel_runtime.numerics import blas

os.environ["NKI_LAB_CACHE"] = "off"
nki_lab.activate()
if blas.bits_depend_on_threads():  # tests compare bits, and a busy machine changes the number of threads
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    blas.set_threads(1)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=100)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=30)


def pytest_configure(config: pytest.Config) -> None:
    """Print failures at once, where the results of all processes arrive."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config), "failures-at-once")


class _Failures:
    """Prints the end of what a failed test says as soon as it has failed; the whole stands in the summary."""

    LINES = 25

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a failure's name and last lines."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            lines = [f"failed: {report.nodeid}, {report.when}", *report.longreprtext.splitlines()[-self.LINES :]]
            terminal.write("\n" + "\n    ".join(lines) + "\n")
