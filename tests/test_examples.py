"""The example notebooks run from top to bottom, and what their prose says is so."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))
SECONDS = 60


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives an example after it ran; each runs once, in a kernel of its own."""
    home = tmp_path_factory.mktemp("home")
    before = dict(os.environ)
    os.environ.update(
        IPYTHONDIR=str(home), PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), before.get("PYTHONPATH")]))
    )
    done: dict[str, Any] = {}

    def run(name: str) -> Any:
        if name not in done:
            (path,) = [path for path in EXAMPLES if path.stem.startswith(name)]
            notebook = nbformat.read(path, 4)
            NotebookClient(notebook, timeout=SECONDS, kernel_name="python3").execute(cwd=str(home))
            done[name] = notebook
        return done[name]

    yield run
    os.environ.clear()
    os.environ.update(before)


def texts(notebook: Any) -> list[str]:
    """What each code cell shows, as text."""
    return ["\n".join(_text(output) for output in cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return "\n".join(output.traceback) if output.output_type == "error" else str(output.data["text/plain"])


def test_there_are_four() -> None:
    assert [path.name[:2] for path in EXAMPLES] == ["01", "02", "03", "04"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert "widgets" not in notebook.metadata


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_readable(path: Path) -> None:
    cells = nbformat.read(path, 4).cells
    assert cells[0].source.startswith("# ")
    assert cells[1].source.startswith("%load_ext nki_lab")
    assert max(len(line) for cell in cells for line in cell.source.splitlines()) <= 120
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    assert len(prose) >= len(cells) // 3
    for target in re.findall(r"\]\(([^)]+)\)", "\n".join(prose)):
        assert (path.parent / target).is_file(), target


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, executed: Any) -> None:
    notebook = executed(path.stem[:2])
    failed = [
        cell for cell in notebook.cells
        if cell.cell_type == "code" and any(output.output_type == "error" for output in cell.outputs)
    ]  # fmt: skip
    assert all("raises-exception" in cell.metadata.get("tags", []) for cell in failed)


def test_the_first_example_adds(executed: Any) -> None:
    _, add, rows, numbers, confidence = texts(executed("01"))
    assert "add on trn2: " in add
    assert "3.5, 3.5" in add
    assert "add_rows on trn2: " in rows
    assert "of HBM bandwidth used" in numbers
    assert "'documented'" in confidence


def test_each_stage_of_the_matrix_product_is_faster_than_the_one_before(executed: Any) -> None:
    table = texts(executed("02"))[-1].splitlines()[1:]
    times = [float(line.split()[1]) for line in table if line.strip()]
    assert len(times) == 3
    assert times[0] > 1.5 * times[1] > 1.5 * 1.2 * times[2]


def test_each_softmax_is_faster_and_more_even_than_the_one_before(executed: Any) -> None:
    table = [line.split() for line in texts(executed("03"))[-2].splitlines() if line.strip()]
    times = [float(line[1]) for line in table]
    vector, scalar = ([int(line[place].rstrip("%")) for line in table] for place in (4, 6))
    assert times == sorted(times, reverse=True)
    assert vector == sorted(vector, reverse=True)
    assert scalar == sorted(scalar)
    moved = re.findall(r"([\d.]+) MiB from and to HBM", texts(executed("03"))[-1])
    assert float(moved[0]) == 2 * float(moved[1])


def test_the_three_faults_are_found_at_once_and_a_fourth_while_running(executed: Any) -> None:
    _, faults, mended, running, page = texts(executed("04"))
    assert faults.startswith("Not run: 3 errors")
    assert re.findall(r"^error: (NKI\d+)", faults, re.MULTILINE) == ["NKI213", "NKI203", "NKI201"]
    assert "layer on trn2: " in mended
    assert "NKI303" in running
    assert "partial on trn2: " in running
    assert "# NKI213: " in page
