"""An IPython shell with the extension loaded, as the tests of notebook cells use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from nki_lab.call_records.choices import choices
from nki_lab.call_records.recorder import recorder


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
