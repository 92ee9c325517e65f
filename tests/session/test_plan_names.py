"""What a kernel's names mean: a later call notices each change that a call in a new process would have noticed."""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import linecache
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nki
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import arch_of

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    session.forget()
    yield
    session.forget()


def execute(function: Any, *args: Any) -> session.Execution:
    return session.execute(session.Launch(function, "trn2"), args, {})


def first(function: Any, *args: Any) -> float:
    """Return the first element of a kernel's result for ones."""
    found: float = execute(function, np.ones((128, 64), np.float32), *args).outputs[0, 0]
    return found


def scaled(a: Any, by: float) -> Any:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), by))
    return out


def test_attributes_of_a_kernel_object_count() -> None:
    @nki.jit
    def helper(tile):
        return nl.multiply(tile, 1.0)

    def outer(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(helper(nl.load(a)), helper.SCALE))
        return out

    for scale in (2.0, 3.0, 5.0):
        helper.SCALE = scale
        assert first(outer) == scale


def test_a_kernel_that_is_given_a_grid_is_refused_inside_another_one() -> None:
    @nki.jit
    def plain(tile):
        return nl.multiply(tile, 2.0)

    helper = plain

    def outer(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, helper(nl.load(a)))
        return out

    assert [first(outer) for _ in range(2)] == [2, 2]
    helper = plain[2]
    with pytest.raises(NkiError, match="NKI016"):
        first(outer)


def test_the_fields_of_a_record_count() -> None:
    table = np.zeros(1, [("scale", np.float32)])
    row = table[0]

    def kernel(a):
        return scaled(a, float(row["scale"]))

    for scale in (2, 3, 5):
        table["scale"] = scale
        assert first(kernel) == scale


def test_attributes_of_a_number_of_ones_own_type_count() -> None:
    class Factor(np.float32):
        scale = 1.0

    factor = Factor(1.0)

    def kernel(a):
        return scaled(a, factor.scale)

    for scale in (2.0, 3.0, 5.0):
        factor.scale = scale
        assert first(kernel) == scale


def test_the_metadata_of_a_dtype_counts() -> None:
    def kernel(a, dtype):
        return scaled(a, float(dtype.metadata["scale"]))

    for scale in (2, 3, 5):
        dtype = np.dtype(np.float32, metadata={"scale": scale})  # type: ignore[call-overload]
        assert first(kernel, dtype) == scale


def test_a_module_that_a_helper_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = (nl,)

    def combined(library, tile):
        return library.put_into_nki(tile, 2.0)

    def by_argument(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, combined(nl, nl.load(a)))
        return out

    def by_tuple(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, libraries[0].put_into_nki(nl.load(a), 2.0))
        return out

    for function, result in ((nl.multiply, 2), (nl.add, 3), (nl.subtract, -1)):
        monkeypatch.setattr(nl, "put_into_nki", function, raising=False)
        assert [first(kernel) for kernel in (by_argument, by_tuple) * 2] == [result] * 4


def test_what_an_object_in_a_module_of_nki_holds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [2.0]

    @nki.jit
    def doubled(tile):
        return nl.multiply(tile, values[0])

    def kernel(a):
        return scaled(a, nl.put_into_nki["by"][0])

    def calling(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.called_in_nki(nl.load(a)))
        return out

    monkeypatch.setattr(nl, "put_into_nki", {"by": np.ones(1)}, raising=False)
    monkeypatch.setattr(nl, "called_in_nki", doubled, raising=False)
    for scale in (2.0, 3.0, 5.0):
        nl.put_into_nki["by"][0] = values[0] = scale
        assert first(kernel) == first(calling) == scale


def test_a_target_of_the_same_name_has_programs_of_its_own() -> None:
    arch = arch_of("trn2")
    changed = dataclasses.replace(arch, hbm_bytes=arch.hbm_bytes // 2)
    a = np.ones((128, 64), np.float32)
    assert [nki_lab.run(scaled, a, 2.0, target=item).program.arch is item for item in (arch, changed)] == [True, True]


def test_a_builtin_that_is_exchanged_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(a):
        return scaled(a, float(pow(2, 1)))

    assert [first(kernel) for _ in range(2)] == [2, 2]
    monkeypatch.setattr(builtins, "pow", lambda *_: 5)
    assert first(kernel) == 5


def test_the_builtins_of_a_text_count() -> None:
    own = {**vars(builtins), "SCALE": 2.0}
    space: dict[str, Any] = {"scaled": scaled, "__builtins__": own, "__name__": "text"}
    exec("def kernel(a):\n    return scaled(a, SCALE)", space)
    for scale in (2.0, 3.0, 5.0):
        own["SCALE"] = scale
        assert first(space["kernel"]) == scale


def test_what_is_read_from_a_function_counts() -> None:
    def helper():
        """2"""

    def kernel(a):
        return scaled(a, float(helper.__doc__))

    for scale in ("2", "3", "5"):
        helper.__doc__ = scale
        assert first(kernel) == float(scale)


def test_sizes_of_tiles_cannot_be_set() -> None:
    with pytest.raises(AttributeError):
        nl.tile_size.pmax = 64


def tiled(a):
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], nl.tile_size.pmax):
        rows = nl.ds(start, nl.tile_size.pmax)
        nl.store(out[rows], nl.multiply(nl.load(a[rows]), 2.0))
    return out


def with_numpy(a):
    out = nl.ndarray(a.shape, dtype=np.float32, buffer=nl.shared_hbm)
    nl.store(out, tiled_sum(a, float(np.sqrt(2))))
    return out


def tiled_sum(a, by):
    return nl.multiply(nl.load(a), by)


@pytest.mark.parametrize("kernel", [tiled, with_numpy])
def test_kernels_that_read_sizes_and_shapes_are_kept_on_disk(kernel: Any) -> None:
    launch, spec = session.Launch(kernel, "trn2"), nki_lab.spec((256, 64), "float32")
    found = session.digest_of(launch, (spec,), {}, None)
    assert found is not None and len(found) == 64
    assert found == session.digest_of(launch, (spec,), {}, None)


def test_an_object_put_into_a_library_has_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named:
        def __repr__(self) -> str:
            return "Named"

    monkeypatch.setattr(nl, "multiply", Named())
    assert session.digest_of(session.Launch(tiled, "trn2"), (nki_lab.spec((256, 64), "float32"),), {}, None) is None


EDITED = """
import nki
import nki.language as nl

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    {more}
    nl.store(out, nl.multiply(nl.load(a), 2.0))
    return out
"""


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of a kernel, and a function that writes its file, as if at another time."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path, times = tmp_path / "edited_kernel.py", iter(range(10**9, 2 * 10**9, 1000))

    def write(more: str, before: str = "") -> None:
        path.write_text(before + EDITED.format(more=more))
        at = next(times)
        os.utime(path, (at, at))

    write("pass")
    yield importlib.import_module("edited_kernel"), write
    del sys.modules["edited_kernel"]


def test_a_module_that_was_edited_and_loaded_again_is_read_anew(edited: Any) -> None:
    module, write = edited
    a = np.ones((128, 64), np.float32)
    for more in ("pass", "# one\n    # two\n    # three", "late = nl.ndarray((128, 64), nl.float32)\n" + 9 * "\n"):
        write(more)
        importlib.reload(module)
        run = nki_lab.run(module.kernel, a, target="trn2")
        assert (run.outputs[0] == 2).all()
        (store,) = {site.line for site in run.program.sites if "nl.store" in linecache.getline(site.file, site.line)}
        assert "nl.store" in Path(module.__file__).read_text().split("\n")[store - 1]


def test_a_kernel_runs_whose_text_has_changed_since(edited: Any) -> None:
    module, write = edited
    for more, before in (("pass", "\n" * 40), ("", ""), ("# more\n" * 20, "'''text'''")):
        write(more, before)
        session.forget()
        linecache.checkcache()
        assert (nki_lab.run(module.kernel, np.ones((128, 64), np.float32), target="trn2").outputs[0] == 2).all()


def doubled_beside_numpy(a: Any) -> Any:
    out = nl.ndarray(a.shape, dtype=np.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), np.sqrt(4.0)))
    return out


def reads_file(a: Any) -> Any:
    return scaled(a, float(np.load("numbers.npy")))


def reads_file_by_another_name(a: Any) -> Any:
    module = np
    return scaled(a, float(module.load("numbers.npy")))


def reads_file_from_a_call(a: Any) -> Any:
    def library() -> Any:
        return np

    return scaled(a, float(library().load("numbers.npy")))


def test_a_kernel_that_loads_tiles_beside_numpy_is_traced_once() -> None:
    assert [first(doubled_beside_numpy) for _ in range(2)] == [2, 2]
    assert execute(doubled_beside_numpy, np.ones((128, 64), np.float32)).cached


@pytest.mark.parametrize("kernel", [reads_file, reads_file_by_another_name, reads_file_from_a_call])
def test_a_kernel_that_reads_a_file_reads_it_in_each_call(
    kernel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for scale in (2.0, 3.0):
        np.save("numbers.npy", scale)
        assert first(kernel) == scale
