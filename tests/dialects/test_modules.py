"""The modules of the current dialect: every name that kernels import, and what asking for others says."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nki
import nki.collectives as ncc
import nki.compiler
import nki.dtype as ndt
import nki.experimental
import nki.isa as nisa
import nki.isa.constants
import nki.language as nl
import nki.meta.tensor
import nki.tensor
import nki.typing as nt
import numpy as np
import pytest
from nki.collectives import ReplicaGroup
from nki.isa import core_barrier, dma_engine, engine, reduce_cmd, sendrecv
from nki.language import NKIObject, affine_range, static_range

import nki_lab
from nki_lab.cli.coverage import functions
from nki_lab.diagnostic import NkiError
from nki_lab.dialects import current
from nki_lab.dialects.modules import is_ours
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.issue import nki_api_names

ROOT = Path(__file__).parents[2]


# -- names that are there ---------------------------------------------------------------------------------------------


PUBLISHED = functions()


@pytest.mark.parametrize("module", sorted(PUBLISHED))
def test_every_published_function_can_be_imported(module: str) -> None:
    found = importlib.import_module(module)
    named = {name: getattr(found, name) for name in PUBLISHED[module]}
    assert not [name for name, value in named.items() if not (callable(value) or getattr(value, "nki_op", "") == name)]


def test_every_declared_instruction_is_in_nki_isa() -> None:
    assert not [name for name in TABLE if getattr(getattr(nisa, name), "nki_instruction", None) is not TABLE[name]]


def test_every_dtype_is_in_nki_language_and_nki_dtype() -> None:
    for name, kind in DTYPES.items():
        assert getattr(nl, name) is kind.host
        assert getattr(ndt, name) is kind.host
    assert nl.bool is nl.bool_
    assert nl.DType is str


def test_constants_are_the_same_objects_in_both_modules() -> None:
    for name in ("dge_mode", "oob_mode", "matmul_perf_mode", "engine", "reduce_cmd", "nc_version", "dma_engine"):
        assert getattr(nki.isa.constants, name) is getattr(nisa, name)
    assert nki.isa.vector_engine is engine.vector
    assert nki.isa.constants.scalar_engine is nisa.engine.scalar


def test_names_that_kernels_import_one_by_one_are_the_modules_own() -> None:
    assert (core_barrier, dma_engine, reduce_cmd, sendrecv) == (
        nisa.core_barrier, nisa.dma_engine, nisa.reduce_cmd, nisa.sendrecv,
    )  # fmt: skip
    assert (NKIObject, affine_range, static_range) == (nl.NKIObject, nl.affine_range, nl.static_range)
    assert ReplicaGroup is ncc.ReplicaGroup
    assert nisa.NkiValidationError is NkiError
    assert nki.experimental.while_loop is nl.while_loop


def test_memory_regions_compare_with_their_names() -> None:
    assert nl.sbuf == "sbuf"
    assert nl.hbm is nl.private_hbm
    assert nl.shared_hbm != nl.hbm


def test_submodules_are_attributes_of_their_parents() -> None:
    assert nki.language is nl
    assert nki.isa.constants is sys.modules["nki.isa.constants"]
    assert nki.meta.tensor.tensor is nt.tensor
    assert nki.__version__ == current.RELEASE


def test_star_imports_bring_the_names() -> None:
    scope: dict[str, Any] = {}
    exec("from nki.language import *", scope)
    assert scope["ndarray"] is nl.ndarray
    assert "__nki_missing__" not in scope


def test_dir_lists_names_without_the_machinery() -> None:
    assert {"nc_matmul", "engine"} <= set(dir(nisa))
    assert not [name for name in dir(nisa) if name.startswith(("__nki_missing", "__nki_lab"))]


def test_modules_look_like_packages_to_the_import_system() -> None:
    for name in current.modules():
        module = sys.modules[name]
        assert isinstance(module, ModuleType)
        assert importlib.util.find_spec(name) is module.__spec__
        assert inspect.getdoc(module)
        assert pickle.loads(pickle.dumps(module)) is module
        assert name in repr(module)
    with pytest.raises(ModuleNotFoundError, match=r"nki\.nonsense"):
        importlib.import_module("nki.nonsense")


# -- names that are not -----------------------------------------------------------------------------------------------


def test_an_unknown_name_suggests_the_near_ones() -> None:
    with pytest.raises(AttributeError, match=r"(?s)NKI006 nki.isa has no nc_matmull.*did you mean nc_matmul"):
        nisa.nc_matmull


def test_an_unknown_name_does_not_break_probing() -> None:
    assert not hasattr(nl, "nonsense")
    assert getattr(nl, "nonsense", None) is None
    assert not hasattr(nl, "__wrapped__")


def test_an_import_of_an_unknown_name_says_so_too() -> None:
    with pytest.raises(ImportError, match=r"(?s)NKI006 nki.language has no ndaray.*did you mean ndarray") as caught:
        from nki.language import ndaray  # noqa: F401
    assert isinstance(caught.value, NkiError)


def test_guarded_imports_fall_back() -> None:
    try:
        from nki.isa import something_newer
    except ImportError:
        something_newer = None
    assert something_newer is None


REMOVED = [(module, name) for module, names in nki_api_names.REMOVED.items() for name in names]


@pytest.mark.parametrize(("module", "name"), REMOVED, ids=".".join)
def test_a_removed_name_says_what_replaced_it(module: str, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"(?s)NKI603 {module}.{name} was removed.*help") as caught:
        getattr(importlib.import_module(module), name)
    assert caught.value.diagnostics[0].help  # type: ignore[attr-defined]


def test_the_removed_names_of_the_migration_guide_are_all_there() -> None:
    wanted = {
        "nki.language": "arange mgrid par_dim loop_reduce spmd_dim nc static_cast fp32",
        "nki.isa": "tensor_copy_dynamic_src tensor_copy_dynamic_dst",
        "nki": "baremetal benchmark profile simulate_kernel",
        "nki.compiler": "sbuf psum",
    }
    assert not [(module, name) for module, names in wanted.items() for name in names.split()
                if name not in nki_api_names.REMOVED[module]]  # fmt: skip


def test_no_name_is_both_removed_and_there() -> None:
    assert not [(module, name) for module, name in REMOVED if name in vars(importlib.import_module(module))]


# -- annotations ------------------------------------------------------------------------------------------------------


EVALUATED = """
from typing import Optional, Union
import nki, nki.typing as nt, nki.language as nl

@nki.jit
def kernel(a: nki.tensor, b: nt.tensor[128, 512], c: nki.dtype = nl.bfloat16, d: nki.dtype | None = None,
           e: Optional[nki.dtype] = None, f: None | nki.tensor = None, g: nki.tensor[4] | None = None,
           h: Union[nt.tensor, float] = 0.0, i: nt.tensor[[4, "n"], nl.float32] = None) -> nki.tensor:
    x: nt.tensor[4, 3] = a
    return x
"""


def test_modules_serve_as_annotations_that_are_evaluated() -> None:
    scope: dict[str, Any] = {}
    exec(compile(EVALUATED, "<kernel>", "exec", dont_inherit=True), scope)
    assert list(inspect.signature(scope["kernel"]).parameters) == list("abcdefghi")
    hints = scope["kernel"].__annotations__
    assert hints["d"] == nki.dtype._type | None
    assert (hints["b"].shape, hints["i"].shape, hints["i"].dtype) == ((128, 512), (4, None), nl.float32)
    assert repr(hints["b"]) == "nt.tensor[128, 512]"


def test_a_dtype_is_an_instance_of_the_dtype_module() -> None:
    assert isinstance(nl.bfloat16, nki.dtype)
    assert isinstance(nl.tfloat32, nki.dtype)
    assert not isinstance(np.ones(3), nki.dtype)
    assert not isinstance("bfloat16", nki.dtype)
    assert nki.dtype("bfloat16") is nl.bfloat16


def test_a_tensor_is_an_instance_of_the_tensor_annotations() -> None:
    seen = []

    @nki.jit
    def kernel(a):
        seen.extend([isinstance(a, nki.tensor), isinstance(a, nt.tensor), isinstance(a, nl.NkiTensor)])
        return a

    kernel(np.ones((4, 3), np.float32))
    assert seen == [True, True, True]
    assert not isinstance(3, nt.tensor)


def test_a_declared_shape_must_match() -> None:
    @nki.jit
    def kernel(a: nt.tensor[4, 3], b: nt.tensor[[4, 3], nl.float32], c: nt.tensor):
        return a

    one = np.ones((4, 3), np.float32)
    kernel(one, one, one)
    with pytest.raises(AssertionError, match=r"NKI203 argument a is \(3, 4\), its annotation says nt.tensor\[4, 3\]"):
        kernel(one.T, one, one)
    with pytest.raises(AssertionError, match=r"NKI203 argument b is \(3, 4\)"):
        kernel(one, b=one.T, c=one)

    @nki.jit
    def unevaluable(a: OnlyForCheckers.tensor[4, 3]):  # noqa: F821
        return a

    unevaluable(one.T)


def test_a_module_that_is_no_type_is_not_called() -> None:
    assert not callable(nki)
    with pytest.raises(TypeError):
        nl()


# -- groups -----------------------------------------------------------------------------------------------------------


def test_replica_groups_are_disjoint_values() -> None:
    group = ReplicaGroup([[0, 1], [2, 3]])
    assert group == ReplicaGroup(((0, 1), (2, 3)))
    assert hash(group) == hash(ReplicaGroup(((0, 1), (2, 3))))
    assert group != ReplicaGroup([[0, 1]])
    assert repr(group) == "ReplicaGroup([[0, 1], [2, 3]])"
    with pytest.raises(ValueError, match=r"NKI012.*twice"):
        ReplicaGroup([[0, 1], [1, 2]])


# -- activation -------------------------------------------------------------------------------------------------------


def python(script: str, folder: Path, *, status: int = 0) -> str:
    opening = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", f"{opening}\n{script}"],
                          cwd=folder, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_activation_twice_keeps_the_modules() -> None:
    before = sys.modules["nki.language"]
    nki_lab.activate()
    assert sys.modules["nki.language"] is before


def test_deactivation_takes_the_modules_away(tmp_path: Path) -> None:
    python(
        "import nki_lab\nnki_lab.activate()\nimport nki.language as nl\nnki_lab.deactivate()\n"
        "assert not [n for n in sys.modules if n.partition('.')[0] in ('nki', 'neuronxcc')]\n"
        "nki_lab.activate()\nimport nki.language\nassert nki.language is nl",
        tmp_path,
    )


def test_an_installed_package_is_not_shadowed(tmp_path: Path) -> None:
    (tmp_path / "nki").mkdir()
    (tmp_path / "nki" / "__init__.py").write_text("real = True\n", encoding="utf-8")
    (tmp_path / "nki" / "language.py").write_text("", encoding="utf-8")
    python(
        f"sys.path.insert(0, {str(tmp_path)!r})\nimport nki_lab\n"
        "try:\n    nki_lab.activate()\nexcept ImportError as error:\n    assert 'NKI015' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
        "import nki, nki.language\nassert nki.real\n"
        "try:\n    nki_lab.activate()\nexcept ImportError as error:\n    assert 'NKI015' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
        "nki_lab.activate(force=True)\nimport nki.language as nl\nassert nl.ndarray\n"
        "nki_lab.deactivate()\nimport nki\nassert nki.real and 'nki.language' in sys.modules",
        tmp_path,
    )


def test_a_folder_that_is_called_nki_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "nki").mkdir()
    python(f"sys.path.insert(0, {str(tmp_path)!r})\nimport nki_lab\nnki_lab.activate()\nimport nki\nnki.jit", tmp_path)


def test_tools_may_ask_every_module_for_any_name() -> None:
    """PyTorch's inductor asks all loaded modules for the names of its dependencies."""
    ours = [module for module in [*sys.modules.values()] if is_ours(module)]
    assert len(ours) > 20
    assert not [module for module in ours if hasattr(module, "no_such_name")]
