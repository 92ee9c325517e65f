"""An IPython shell with the extension loaded, as the tests of notebook cells use it, and what its cells leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from nki_lab.call_records.choices import choices
from nki_lab.call_records.recorder import recorder
from nki_lab.widgets import MIME


@contextmanager
def ipython(home: Path) -> Iterator[InteractiveShell]:
    """The process's one shell; it keeps no history, and what it writes goes below `home`."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    before = os.environ.get("IPYTHONDIR")
    os.environ["IPYTHONDIR"] = str(home)
    InteractiveShell.clear_instance()
    main = sys.modules["__main__"]
    try:
        shell = InteractiveShell.instance(config=config)
        shell.run_line_magic("load_ext", "nki_lab")
        yield shell
    finally:
        choices.session = False
        recorder.forget()
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = main  # the shell's own cannot be given to other processes
        os.environ.pop("IPYTHONDIR")
        if before is not None:
            os.environ["IPYTHONDIR"] = before


class Done:
    """What a cell left: its outputs from first to last, what it printed, its value and its error."""

    def __init__(self, captured: Any, result: Any) -> None:
        self.shown = [item.data for item in captured.outputs]
        self.printed = captured.stdout
        self.complained = captured.stderr
        self.value = result.result
        self.error = result.error_before_exec or result.error_in_exec
        self.number = result.execution_count

    @property
    def text(self) -> str:
        """The text of all outputs."""
        return "\n".join(item["text/plain"] for item in self.shown)

    @property
    def html(self) -> str:
        """The HTML of all outputs."""
        return "\n".join(item.get("text/html", "") for item in self.shown)

    @property
    def drawn(self) -> list[Any]:
        """The outputs that are drawn."""
        return [item for item in self.shown if MIME in item]


class Notebook:
    """The cells of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def run(self, source: str) -> Done:
        """Run a cell as a front end does."""
        with capture_output() as captured:
            result = self.shell.run_cell(source, store_history=True)
        return Done(captured, result)

    def good(self, source: str) -> Done:
        """The same of a cell that has to end well."""
        done = self.run(source)
        assert done.error is None, done.printed
        return done
