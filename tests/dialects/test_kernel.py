"""The kernel object: decorating, calling, launching, and what Python's tools see of it."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.dialects import kernel as kernels
from nki_lab.dialects.kernel import Kernel

ROOT = Path(__file__).parents[2]


@nki.jit
def double(a, *, factor=2.0):  # a comment that belongs to the source
    """Twice a."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), factor))
    return out


def plain(a):
    return double(a)


class Owner(nl.NKIObject):
    factor = 3.0

    @nki.jit
    def method(self, a):
        return double(a, factor=self.factor)


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, np.float32).astype(dtype)


@pytest.fixture(autouse=True)
def _unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_announced", set())


# -- decorating -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "decorate",
    [
        nki.jit,
        nki.jit(),
        nki.jit(mode="trace"),
        nki.jit(mode="auto"),
        nki.jit(mode="simulation"),
        nki.jit(platform_target="trn2"),
        nki.jit(debug_kernel=True, show_compiler_tb=True, experimental_flags="x", additional_compile_opt="--y"),
        nki.simulate,
    ],
    ids=range(8),
)
def test_every_way_to_decorate_gives_a_kernel(decorate: Any) -> None:
    made = decorate(plain)
    assert isinstance(made, Kernel)
    assert made.__name__ == "plain"
    assert (made(ones(4, 3)) == 2).all()


def test_decorating_a_kernel_again_keeps_it() -> None:
    assert nki.jit(double) is double
    assert nki.simulate(double) is double


def test_a_misspelled_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match=r"(?s)NKI002.*'platform_targt'.*did you mean platform_target"):
        nki.jit(platform_targt="trn2")


def test_the_platform_of_the_decorator_is_used_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    @nki.jit(platform_target="trn1")
    def kernel(a):
        seen.append(nisa.get_nc_version().name)
        return a

    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    kernel(ones(4, 3))
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    kernel(ones(4, 3))
    assert seen == ["gen2", "gen3"]


def test_deprecated_keywords_are_noted_at_the_decorator(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit(platform_target="trn2", mode="auto")
    def kernel(a):
        return a

    found = kernel.execute((ones(4, 3),), {}).diagnostics
    assert [(item.code, item.severity) for item in found] == [("NKI604", "warning")] * 2
    assert found[0].line == inspect.getsourcelines(kernel)[1]
    assert capsys.readouterr().err == ""
    kernel(ones(4, 3))
    kernel(ones(4, 3))
    said = capsys.readouterr().err
    assert said.count("NKI604") == 4  # two findings, each with its reference to `explain`, once in a process


def test_what_cannot_be_called_is_no_kernel() -> None:
    with pytest.raises(TypeError, match="NKI001 the kernel is a int"):
        nki.jit(3)


# -- calling ----------------------------------------------------------------------------------------------------------


def test_a_plain_call_runs_on_the_simulator() -> None:
    result = double(ones(4, 3, dtype=ml_dtypes.bfloat16))
    assert isinstance(result, np.ndarray)
    assert result.dtype == nl.bfloat16
    assert (result == 2).all()


def test_simulate_takes_plain_functions_and_keywords() -> None:
    assert (nki.simulate(plain)(ones(4, 3)) == 2).all()
    assert (nki.simulate(double)(a=ones(4, 3), factor=5.0) == 5).all()


def test_a_kernel_inside_a_kernel_is_inlined() -> None:
    @nki.jit
    def outer(a):
        return double(double(a))

    done = outer.execute((ones(4, 3),), {})
    assert (done.outputs == 4).all()
    assert done.program.name == "outer"
    assert len(done.program) == 6


def test_a_grid_inside_a_kernel_is_refused() -> None:
    @nki.jit
    def outer(a):
        return double[2](a)

    with pytest.raises(ValueError, match="NKI016 double is called inside a kernel with the grid 2"):
        outer(ones(4, 3))


def test_a_call_without_arguments_is_refused_where_it_stands() -> None:
    with pytest.raises(TypeError, match="NKI009") as caught:
        double()
    (found,) = caught.value.diagnostics  # type: ignore[attr-defined]
    assert found.file == __file__
    assert inspect.getsourcelines(test_a_call_without_arguments_is_refused_where_it_stands)[1] + 2 == found.line


def test_a_method_gets_its_object() -> None:
    assert (Owner().method(ones(4, 3)) == 3).all()
    assert Owner.method.__name__ == "method"


def test_a_wrapped_kernel_keeps_its_signature_and_runs() -> None:
    def traced(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    wrapped = traced(double)
    assert inspect.signature(wrapped) == inspect.signature(double)
    assert (wrapped(ones(4, 3)) == 2).all()
    assert (nki.simulate(wrapped)(ones(4, 3), factor=3.0) == 3).all()
    assert (nki.jit(functools.partial(double, factor=4.0))(ones(4, 3)) == 4).all()


def test_findings_of_a_plain_call_go_to_the_error_stream_once(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf))
        return out

    for _ in range(3):
        kernel(ones(4, 3))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("error: NKI301") == 1


# -- launching --------------------------------------------------------------------------------------------------------


def test_the_bracket_says_how_many_cores() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray((nl.num_programs(), *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out[nl.program_id()], nl.multiply(nl.load(a), float(nl.program_id())))
        return out

    assert kernel[2](ones(4, 3))[:, 0, 0].tolist() == [0, 1]
    assert kernel[1](ones(4, 3)).shape == kernel(ones(4, 3)).shape == (1, 4, 3)


@pytest.mark.parametrize("grid", [0, -1, True, 1.0, "2", None, (2,), (2, 2), slice(2)], ids=str)
def test_the_bracket_holds_one_whole_number(grid: Any) -> None:
    with pytest.raises(ValueError, match="NKI016"):
        double[grid]


@pytest.mark.parametrize(("target", "cores"), [("trn1", 1), ("trn2", 2), ("trn3", 2)])
def test_no_more_cores_than_the_target_joins(target: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    double[cores](ones(4, 3))
    with pytest.raises(ValueError, match=f"NKI016.*asks for {cores + 1}"):
        double[cores + 1](ones(4, 3))


def test_a_schedule_does_not_change_results() -> None:
    scheduled = double.with_schedule([("store", ["load", "multiply"])])
    assert scheduled.schedule == (("store", ["load", "multiply"]),)
    assert double.schedule == ()
    assert (scheduled(ones(4, 3)) == 2).all()


# -- surroundings -----------------------------------------------------------------------------------------------------


def test_the_target_is_read_at_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    @nki.jit
    def kernel(a):
        version = nisa.get_nc_version()
        seen.append((version.name, version >= nisa.nc_version.gen4, nl.tile_size.gemm_moving_fmax))
        return a

    for target in ("gen2", "trn2", "TRN3"):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
        kernel(ones(4, 3))
        assert nisa.get_nc_version().name == seen[-1][0]
    assert [item[:2] for item in seen] == [("gen2", False), ("gen3", False), ("gen4", True)]


def test_an_unknown_target_says_where_it_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with pytest.raises(ValueError, match="NKI004 NEURON_PLATFORM_TARGET_OVERRIDE is 'trn9'"):
        double(ones(4, 3))


def test_the_nearest_configuration_gives_the_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert double.target().target == "trn3"
    configuration = tmp_path / "pyproject.toml"
    configuration.write_text('[tool.nki-lab]\ntarget = "trn1"\n', encoding="utf-8")
    assert double.target().target == "trn1"
    assert double.target("trn2").target == "trn2"
    configuration.write_text('[tool.nki-lab]\ntarget = "trn17"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"NKI004 \[tool.nki-lab\] target in .*pyproject.toml is 'trn17'"):
        double.target()
    for text in ("nonsense [", "", "tool = 3\n", '[tool]\nnki-lab = "x"\n', "[tool.nki-lab]\n"):
        configuration.write_text(text, encoding="utf-8")
        assert double.target().target == "trn3"


def test_rounding_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.add(nl.load(a), 2.0**-12)
        wide = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(wide, tile)
        nl.store(out, wide)
        return out

    a = ones(4, 3, dtype=ml_dtypes.bfloat16)
    monkeypatch.delenv("NKI_PRECISE_FP", raising=False)
    assert (kernel(a) == 1).all()
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    assert (kernel(a) == 1).all()
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    assert (kernel(a) == 1 + 2.0**-12).all()


def test_the_simulators_own_switch_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    assert (double(ones(4, 3)) == 2).all()


# -- what Python's tools see ------------------------------------------------------------------------------------------


def test_inspection_shows_the_function() -> None:
    assert str(inspect.signature(double)) == "(a, *, factor=2.0)"
    assert double.__name__ == double.__qualname__ == "double"
    assert double.__module__ == __name__
    assert inspect.getdoc(double) == "Twice a."
    assert "a comment that belongs to the source" in inspect.getsource(double)
    assert inspect.getsource(double).startswith("@nki.jit\ndef double")
    assert inspect.getsourcefile(double) == __file__
    assert inspect.getsource(double[2]) == inspect.getsource(double)
    assert repr(double) == "<nki kernel double>"
    assert repr(double[2]) == "<nki kernel double[2]>"


def test_a_kernel_is_no_function_to_anybody_else() -> None:
    assert not hasattr(double, "__wrapped__")
    assert type(double) is Kernel
    assert double.__class__ is Kernel
    assert not inspect.isfunction(double)
    assert callable(double)


def test_a_kernel_called_like_a_test_is_not_collected(tmp_path: Path) -> None:
    file = tmp_path / "test_kernels.py"
    file.write_text(
        "import nki_lab\nnki_lab.activate()\nimport nki\n\n@nki.jit\ndef test_kernel(a):\n    return a\n\n"
        "def test_it():\n    assert test_kernel.__name__ == 'test_kernel'\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout


def test_kernels_are_pickled_by_name_and_copied_as_themselves() -> None:
    assert copy.copy(double) is double
    assert copy.deepcopy({"k": double})["k"] is double
    again = pickle.loads(pickle.dumps(kernels.as_kernel(Owner.method)))
    assert again is Owner.method


def test_launched_kernels_are_pickled_with_their_grid() -> None:
    again = pickle.loads(pickle.dumps(double[2].with_schedule([("x", "y")])))
    assert again.grid == (2,)
    assert again.schedule == (("x", "y"),)
    assert again.function is double.function


def test_an_unknown_attribute_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="a kernel has no attribute 'nonsense'"):
        double.nonsense


def test_errors_keep_their_kind_through_a_plain_call() -> None:
    with pytest.raises(NkiError) as caught:
        double(np.ones((4, 3)))
    assert isinstance(caught.value, TypeError)
    assert "NKI001" in str(caught.value)
