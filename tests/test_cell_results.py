"""The results of cells: how many runs a session keeps, and how many of a cell it lists."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nki_lab.magic.results import RESULTS
from nki_lab.magic.runs import LINES
from nki_lab.result import Run
from tests.shells import ipython
from tests.test_magic import ADD, Notebook


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    with ipython(tmp_path_factory.mktemp("ipython")) as started:
        yield started


@pytest.fixture
def notebook(shell: InteractiveShell) -> Notebook:
    """A notebook whose first cell has imported what the others use."""
    shell.reset(new_session=True)
    made = Notebook(shell)
    made.good("import numpy as np, nki, nki.language as nl, nki_lab\nx = np.ones((128, 16), np.float32)")
    return made


def test_the_oldest_runs_leave_the_results_of_cells(notebook: Notebook) -> None:
    others = {id(item) for item in gc.get_objects() if isinstance(item, Run)}
    notebook.good(f"%%nki\n{ADD}")
    kept = notebook.good("%%nki\nmine = nki_lab.run(add, x, x)\nmine").value
    numbers = [notebook.good("%%nki\nnki_lab.run(add, x, x)").number for _ in range(RESULTS + 3)]
    out = notebook.shell.user_ns["Out"]
    assert [number in out for number in numbers] == [False] * 3 + [True] * RESULTS
    assert [f"_{number}" in notebook.shell.user_ns for number in numbers] == [False] * 3 + [True] * RESULTS
    gc.collect()
    mine = [item for item in gc.get_objects() if isinstance(item, Run) and id(item) not in others]
    assert len(mine) <= RESULTS + 6  # and a few that are compared with
    assert notebook.good("mine").value is kept
    assert notebook.good("_").value is kept


def test_very_many_runs_are_counted(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good(
        "%%nki --no-view\nfor n in range(1, 21):\n    s = nki_lab.spec((128, 256 * n), 'float32')\n    add(s, s)\n"
    )
    lines = done.text.splitlines()
    assert len(lines) == LINES + 2, lines
    assert lines[LINES] == f"and {20 - LINES - 1} more"
