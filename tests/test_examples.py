"""The example notebooks run from top to bottom, and what their prose says is so; the example kernels are right."""

from __future__ import annotations

import importlib.util
import os
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import nki_lab
from nki_lab import cli
from nki_lab.isa.arch import arch_of

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
    return "\n".join(output.traceback) if output.output_type == "error" else str(output.data.get("text/plain", ""))


def test_the_numbers_of_examples_are_in_order() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{number:02d}" for number in range(1, len(EXAMPLES) + 1)]


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
    assert len(times) == 5
    assert times == sorted(times, reverse=True)
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


def test_attention_is_faster_where_stages_of_three_tiles_stand_side_by_side(executed: Any) -> None:
    in_order, staggered = (line.split() for line in texts(executed("05"))[-1].splitlines())
    assert in_order[3] == staggered[3]  # instructions
    assert float(in_order[1]) > 1.8 * float(staggered[1])


def test_each_edit_is_compared_with_the_run_before_it(executed: Any) -> None:
    _, small, large, one, targets, found, view = texts(executed("07"))
    assert "scaled  trn2 · " in small
    assert " faster (−" in large
    assert "Edited: line 2 `TILE = 256` → `TILE = 1024`." in large
    assert " slower (+" in one
    assert "moved" in one
    assert [line.split()[0] for line in targets.splitlines() if line.startswith("trn")] == ["trn1", "trn2", "trn3"]
    assert found.count(" faster (−") == 2  # printed, and the value of the cell
    assert "utilisation_change" in found
    assert view.startswith("compared.html Critical path of both runs")


def test_a_sweep_finds_the_widest_tile_that_fits(executed: Any) -> None:
    *_, table, best, _charts = texts(executed("08"))
    assert "6 of 6 points: 4 ok, 2 failed" in table
    assert "NKI313" in table
    assert best.startswith("TILE = 512\nrun = nki_lab.profile(scaled, ")
    assert [line.split()[0] for line in best.splitlines()[2:]] == ["512", "128"]


def test_the_three_faults_are_found_at_once_and_a_fourth_while_running(executed: Any) -> None:
    _, faults, mended, running, page = texts(executed("04"))
    assert faults.startswith("Not run: 3 errors")
    assert re.findall(r"^error: (NKI\d+)", faults, re.MULTILINE) == ["NKI213", "NKI203", "NKI201"]
    assert "layer on trn2: " in mended
    assert "NKI303" in running
    assert "partial on trn2: " in running
    assert "# NKI213: " in page


def test_the_charts_tell_what_the_summary_says(executed: Any) -> None:
    _, time, *_, sums, waits, saved = texts(executed("06"))
    assert " µs" in time
    found = re.fullmatch(r"([\d,]+) bytes read in \d+ bins; the summary says ([\d,]+)", sums.strip())
    assert found is not None
    assert found[1] == found[2]
    assert re.fullmatch(r"Tensor waits [3-9]\d% of the time for data from dma", waits.strip())
    assert saved == "True"


# -- the kernels -------------------------------------------------------------------------------------------------------


def loaded(path: Path) -> ModuleType:
    """An example module, whose name is that of its file."""
    made = importlib.util.spec_from_file_location(path.stem, path)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


MODULES = [loaded(path) for path in sorted((ROOT / "examples" / "kernels").glob("*.py"))]


def home(module: ModuleType) -> str:
    """The target on which all versions of a kernel are run; the fastest is on the others too."""
    return "trn2" if "trn2" in module.TARGETS else str(module.TARGETS[0])


RUNS = [
    pytest.param(module, kernel, target, id=f"{kernel.__name__}-{target}")
    for module in MODULES for target in module.TARGETS for kernel in module.KERNELS
    if target == home(module) or kernel is module.KERNELS[-1]
]  # fmt: skip

FASTER = {
    "k01_add": (2.5,), "k02_matmul": (1.7, 1.5, 1.05, 1.04), "k03_softmax": (1.3, 1.2), "k04_layer_norm": (2.3,),
    "k05_rope": (1.8,), "k06_flash_attention": (2.0,), "k07_routing": (1.4,), "k08_fp8_matmul": (1.3,),
    "k09_scan": (1.6,), "k10_two_cores": (1.6, 1.0), "k11_mx_matmul": (),
}  # fmt: skip
"""By how much each version of a kernel is faster than the one before it, at least, on its home target."""


@cache
def asked(module: ModuleType) -> tuple[Any, Any]:
    """The arguments of an example, and what it should give for them."""
    arrays = module.inputs()
    return arrays, module.reference(*arrays)


@cache
def ran(module: ModuleType, kernel: Any, target: str) -> Any:
    return nki_lab.run(kernel, *asked(module)[0], target=target)


def test_the_kernels_grow_in_order() -> None:
    assert [module.__name__ for module in MODULES] == list(FASTER)
    for number, module in enumerate(MODULES, 1):
        assert str(module.__doc__).startswith(f"{number} · ")
        assert len(module.KERNELS) == len(FASTER[module.__name__]) + 1


@pytest.mark.parametrize(("module", "kernel", "target"), RUNS)
def test_a_kernel_agrees_with_its_reference(module: ModuleType, kernel: Any, target: str) -> None:
    run = ran(module, kernel, target)
    run.check(asked(module)[1])
    assert not [item for item in run.diagnostics if item.severity in ("error", "warning")]


@pytest.mark.parametrize(("module", "kernel", "target"), RUNS)
def test_a_profile_from_shapes_alone_is_that_of_the_run(module: ModuleType, kernel: Any, target: str) -> None:
    specs = [nki_lab.spec(array.shape, array.dtype) for array in asked(module)[0]]
    profile, run = nki_lab.profile(kernel, *specs, target=target), ran(module, kernel, target)
    assert profile.summary == run.summary
    summary = profile.summary
    waits = sum(summary.critical_wait_ns.values())
    assert summary.critical_path_ns + waits == pytest.approx(summary.makespan_ns, rel=1e-3)
    assert sum(summary.confidence.values()) == pytest.approx(1, abs=1e-6)
    assert 0 < summary.mbu < 1
    assert 0 <= summary.mfu <= summary.hfu < 1
    assert (summary.mfu > 0) == (summary.flops > 0)
    assert all(busy <= summary.makespan_ns * summary.cores for busy in summary.engine_busy_ns.values())


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_each_version_of_a_kernel_is_faster_than_the_one_before(module: ModuleType) -> None:
    times = [ran(module, kernel, home(module)).summary.makespan_ns for kernel in module.KERNELS]
    gains = [before / after for before, after in pairwise(times)]
    assert all(gain >= least for gain, least in zip(gains, FASTER[module.__name__], strict=True)), gains


@pytest.mark.parametrize("name", ["k02_matmul", "k08_fp8_matmul", "k11_mx_matmul"])
def test_every_way_to_multiply_counts_the_same_operations(name: str) -> None:
    (module,) = [module for module in MODULES if module.__name__ == name]
    (K, M), (_, N) = (matrix.shape for matrix in asked(module)[0][:2])
    for kernel in module.KERNELS:
        assert ran(module, kernel, home(module)).summary.flops == 2 * K * M * N


def test_packed_and_paired_rows_exceed_the_peak_of_single_ones() -> None:
    by_name = {module.__name__: module for module in MODULES}
    for name in ("k08_fp8_matmul", "k11_mx_matmul"):
        summary = ran(by_name[name], by_name[name].KERNELS[-1], "trn3").summary
        rate = summary.flops / summary.makespan_ns / 1e3
        assert arch_of("trn3").tensor_tflops_bf16 < rate < 4 * arch_of("trn3").tensor_tflops_bf16


def test_attention_without_a_mask_and_with_narrow_heads() -> None:
    (module,) = [module for module in MODULES if module.__name__ == "k06_flash_attention"]
    arrays = module.inputs(heads=1, S=512, D=64)
    for kernel in module.KERNELS:
        run = nki_lab.run(kernel, *arrays, causal=False, target="trn2")
        run.check(module.reference(*arrays, causal=False))


def test_examples_have_no_findings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main(["check", "examples", "--target", "trn3"]) == 0
    assert capsys.readouterr().out.strip() == "no findings"


def test_an_example_runs_as_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--target", "trn2", str(ROOT / "examples" / "kernels" / "k05_rope.py")]) == 0
    shown = capsys.readouterr().out
    assert "rope_by_head on trn2" in shown
    assert shown.split()[-2:] == ["findings", "none"]
