"""The runs that a shell holds as results of cells: what is drawn beside them, and how many stay in `Out`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from nki_lab.result import Recorded
from nki_lab.result.notebook import ALONE, Beside

RESULTS: Final = 10
"""Runs that stay in `Out`. Variables keep theirs; older results of cells would fill the memory, run after run."""


class Results:
    """The runs among the results of a shell's cells."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._drawn: Recorded | None = None
        shell.events.register("post_run_cell", self.settle)

    def draw_beside(self, run: Recorded, beside: Beside) -> None:
        """Have other runs of the cell drawn beside one, until the cell has ended."""
        run.beside, self._drawn = beside, run

    def settle(self, _result: object = None) -> None:
        """Forget the drawings beside the cell's run, and the oldest runs in `Out`, as IPython does when full."""
        if self._drawn is not None:
            self._drawn.beside, self._drawn = ALONE, None
        space: MutableMapping[str, Any] = self._shell.user_ns
        out = space.get("_oh")
        if not isinstance(out, dict):
            return
        for number in [number for number, value in out.items() if isinstance(value, Recorded)][:-RESULTS]:
            value = out.pop(number)
            for names in (space, self._shell.user_ns_hidden):  # what IPython names itself it lists in both
                if names.get(f"_{number}") is value:
                    del names[f"_{number}"]
