"""The results of a shell's cells, run after run: what is drawn beside a run, how many runs stay in `Out`, and what is
let go of cells whose functions nobody can call by name any more.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from nki_lab import session
from nki_lab.call_records.recorder import recorder
from nki_lab.magic.notebook_context import file_of, function_of
from nki_lab.result import Recorded
from nki_lab.result.notebook import ALONE, Beside
from nki_lab.source import module

RESULTS: Final = 10
"""Runs that stay in `Out`. Variables keep theirs; older results of cells would fill the memory, run after run."""


class Results:
    """The results of a shell's cells."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._drawn: Recorded | None = None
        self._cells: set[str] = set()
        shell.events.register("post_run_cell", self.settle)

    def draw_beside(self, run: Recorded, beside: Beside) -> None:
        """Have other runs of the cell drawn beside one, until the cell has ended."""
        run.beside, self._drawn = beside, run

    def enter(self, cell: str) -> None:
        """Note that a cell of this name runs, and let go what is kept of cells that others have taken the place of.

        A cell that is run again defines its kernels anew: the programs, plans and trees of the former ones only fill
        the memory. A function that is still held elsewhere, as in a list, is traced again when it is called.
        """
        held = {file_of(function_of(value)) for value in list(self._shell.user_ns.values()) if _has_code(value)}
        left = self._cells - held
        if left:
            session.forget(left)
            module.forget(left)
            recorder.forget_code(left)
        self._cells = (self._cells & held) | {cell}

    def settle(self, _result: object = None) -> None:
        """Forget the drawings beside the cell's run, the oldest runs in `Out`, as IPython does when full, and the
        widgets there that are closed.
        """
        if self._drawn is not None:
            self._drawn.beside, self._drawn = ALONE, None
        space: MutableMapping[str, Any] = self._shell.user_ns
        out = space.get("_oh")
        if not isinstance(out, dict):
            return
        runs = [number for number, value in out.items() if isinstance(value, Recorded)]
        for number in [*runs[:-RESULTS], *(number for number, value in out.items() if _is_closed(value))]:
            value = out.pop(number)
            for names in (space, self._shell.user_ns_hidden):  # what IPython names itself it lists in both
                if names.get(f"_{number}") is value:
                    del names[f"_{number}"]


def _has_code(value: object) -> bool:
    return function_of(value) is not None


def _is_closed(value: object) -> bool:
    """Return whether a value is a widget of ours that is on no page any more."""
    views = sys.modules.get("nki_lab.widgets.visualizer")  # where there is none, nobody drew one
    return views is not None and isinstance(value, views.Visualizer) and value.closed
