"""The editor's questions: check, hover, explain. Pure functions of text."""

from __future__ import annotations

import functools
import textwrap
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lab import query, spec
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.interpreter import Budget
from nki_lab.kernel_runtime.language import namespaces

FAULTY = """import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def first(x):
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile, src=x)
    return x


@nki.jit
def second(y):
    tiles = [i for i in range(3)]
    return y[0:999]


@nki.jit
def third(z):
    return z


if __name__ == "__main__":
    first(np.zeros((128, 64), np.float32))
    second(np.zeros((64, 64), np.float16))
"""


def codes(*args: Any, **kwargs: Any) -> list[str]:
    return [item.code for item in query.check(*args, target="trn2", **kwargs)]


# -- check -----------------------------------------------------------------------------------------------------------


def test_a_hover_tells_what_loops_walk_and_what_expressions_are() -> None:
    text = HOVERED_LOOPS
    line = next(i for i, row in enumerate(text.split("\n"), 1) if "nl.load" in row)
    assert query.hover(text, line - 1, 9, target="trn2") == "`i`: 0 to 3, 4 trips"
    assert query.hover(text, line, text.split("\n")[line - 1].index("x[") + 1, target="trn2") == (
        "`x`: (512, 64) float32 in HBM\n\n`x[i * 128:(i + 1) * 128, 0:32]`: (128, 32) float32 in HBM"
    )
    assert query.hover(text, line + 1, 13, target="trn2") == "`j`: 0 to 7 in steps of 2, 4 trips"


HOVERED_LOOPS = """import nki
import nki.language as nl
import nki.typing as nt

@nki.jit
def kernel(x: nt.tensor[512, 64]):
    out = nl.ndarray((512, 32), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        t = nl.load(x[i * 128:(i + 1) * 128, 0:32])
        for j in range(i % 2, 8, 2):
            t = nl.add(t, t)
        nl.store(out[i * 128:(i + 1) * 128, :], t)
    return out
"""


def test_a_source_is_checked_in_order_of_its_lines() -> None:
    found = query.check(source=FAULTY, target="trn2")
    assert [(item.code, item.line) for item in found] == [
        ("NKI201", 10),
        ("NKI103", 16),
        ("NKI303", 17),
        ("NKI121", 21),
    ]
    assert {item.file for item in found} == {"<source>"}


def test_a_file_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(FAULTY, encoding="utf-8")
    for path in (file, str(file)):
        found = query.check(path, target="trn2")
        assert [item.code for item in found] == ["NKI201", "NKI103", "NKI303", "NKI121"]
        assert {item.file for item in found} == {str(file)}


def test_the_text_of_an_editor_counts_and_not_the_file_s(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("# first line\n" * 30 + FAULTY, encoding="utf-8")
    found = query.check(file, source=FAULTY, target="trn2")
    assert [(item.code, item.line) for item in found][:2] == [("NKI201", 10), ("NKI103", 16)]
    (item,) = [item for item in found if item.code == "NKI201"]
    assert (item.column, item.end_column) == (36, 37)  # the operand, found in the editor's text
    assert query.check(file, target="trn2")[0].line == 40


def test_a_kernel_by_name_is_checked_alone() -> None:
    assert codes(source=FAULTY, function="second") == ["NKI103", "NKI303"]
    assert codes(source=FAULTY, function="third") == ["NKI121"]
    assert codes(source=FAULTY, function="third", args=[spec((4, 4), "int8")]) == []
    assert codes(source=FAULTY, function="absent") == []


def test_a_function_without_a_decorator_is_checked_by_name() -> None:
    text = "import nki.language as nl\ndef plain(x):\n    return x[0:999]\ndef other(x):\n    return x[0:999]\n"
    assert codes(source=text, function="plain", args=[spec((4, 4), "int8")]) == ["NKI303"]
    assert codes(source=text) == []


@nki.jit
def live_kernel(x, config=None):
    """A kernel that this file's tests check as an object."""
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile, src=x)
    return x[0:999]


@pytest.mark.parametrize(
    "kernel", [live_kernel, live_kernel.function, live_kernel[1], functools.partial(live_kernel.function)]
)
def test_a_live_function_is_checked_from_its_source(kernel: Any) -> None:
    found = query.check(function=kernel, args=[spec((128, 64), "float32")], target="trn2")
    assert [item.code for item in found] == ["NKI201", "NKI303"]
    assert {Path(item.file).name for item in found} == {"test_query.py"}
    assert codes(function=kernel) == ["NKI201", "NKI303"]  # this call of `check` gives its arguments


@pytest.mark.parametrize("array", [np.zeros((128, 64), np.float32), spec((128, 64), "float32")])
def test_arrays_count_by_their_shape(array: Any) -> None:
    assert codes(source=FAULTY, function="first", args=[array]) == ["NKI201"]
    assert codes(source=FAULTY, function="first", kwargs={"x": array}) == ["NKI201"]


def test_a_finding_names_the_call_that_gave_the_shapes() -> None:
    item = query.check(source=FAULTY, function="first", target="trn2")[0]
    assert [(place.message, place.span.line if place.span else 0) for place in item.related] == [
        ("with the arguments of this call: first(float32[128,64])", 26)
    ]


def test_several_signatures_are_evaluated() -> None:
    text = "import nki, numpy as np\n@nki.jit\ndef k(x, n):\n    return x[0:n]\n" + "".join(
        f"k(np.zeros((128, 64)), {n})\n" for n in (3, 128, 500)
    )
    (item,) = query.check(source=text, target="trn2")
    assert item.code == "NKI303"
    assert item.related[0].span is not None
    assert item.related[0].span.line == 7


def test_a_kernel_that_another_one_calls_needs_no_shapes_of_its_own() -> None:
    text = """
        import nki, numpy as np
        @nki.jit
        def inner(t):
            return t[0:999]
        @nki.jit
        def outer(x):
            return inner(x)
        outer(np.zeros((4, 4)))
        """
    assert codes(source=textwrap.dedent(text)) == ["NKI303", "NKI129"]  # the second says that inner is a kernel itself


def test_an_unwritten_result_is_found() -> None:
    body = "return nl.ndarray((4, 4), nl.int8, buffer=nl.shared_hbm)"
    text = f"import nki, nki.language as nl\n@nki.jit\ndef k(x):\n    {body}\n"
    (item,) = query.check(source=text, function="k", args=[spec((4, 4), "int8")], target="trn2")
    assert (item.code, item.line) == ("NKI308", 4)


def test_what_does_not_fit_is_found() -> None:
    text = """
        import nki, nki.isa as nisa, nki.language as nl
        @nki.jit
        def k(x):
            tiles = []
            for i in range(8):
                tiles.append(nl.ndarray((128, 16384), nl.float32, buffer=nl.sbuf))
                nisa.memset(dst=tiles[i], value=0.0)
            for tile in tiles:
                nisa.dma_copy(dst=x, src=tile)
        """
    found = query.check(source=textwrap.dedent(text), function="k", args=[spec((128, 16384), "float32")], target="trn2")
    assert {item.outcome for item in found} & {"reject", "fault"}


def test_findings_without_a_place_get_the_kernel_s() -> None:
    (item,) = query.check(source="import nki\n@nki.jit\ndef k(x):\n    return nki\n", function="k",
                          args=[spec((4, 4), "int8")], target="trn2")  # fmt: skip
    assert (item.code, item.line, item.column) == ("NKI014", 3, 5)


def test_nested_kernels_say_that_they_are_not_evaluated() -> None:
    text = "import nki\ndef make():\n    @nki.jit\n    def k(x):\n        return x[0:999]\n    return k\n"
    assert codes(source=text) == ["NKI122"]


def test_beta1_kernels_are_evaluated() -> None:
    text = """
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl
        import numpy as np
        @nki.jit
        def k(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
            nl.store(out[i, j], nl.load(x[i + 1, j]) + 1)
            return out
        nki.simulate_kernel(k, np.zeros((128, 64), np.float16))
        """
    assert codes(source=textwrap.dedent(text)) == ["NKI303"]


def test_the_budget_is_said() -> None:
    text = "import nki, numpy as np\n@nki.jit\ndef k(x):\n    for i in range(10**9): pass\nk(np.zeros((4, 4)))\n"
    (item,) = query.check(source=text, target="trn2", budget=Budget(steps=1000))
    assert (item.code, item.severity, item.line) == ("NKI120", "information", 4)


@pytest.mark.parametrize("make", [lambda path: path / "absent.py", lambda path: path, lambda path: "a\0b"])
def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path, make: Any) -> None:
    (item,) = query.check(make(tmp_path))
    assert item.code == "NKI018"


@pytest.mark.parametrize("function", [len, 3, None, "text of no source"])
def test_a_function_without_source_is_a_finding(function: Any) -> None:
    (item,) = query.check(function=function)
    assert item.code == "NKI018"


@pytest.mark.parametrize("source", ["def k(:\n", b"\xff\xfe\x00", "a\0b", b"# coding: nonsense\n"])
def test_what_is_no_python_is_a_finding(source: Any, tmp_path: Path) -> None:
    assert codes(source=source) == ["NKI101"]
    file = tmp_path / "k.py"
    file.write_bytes(source if isinstance(source, bytes) else source.encode())
    assert codes(file) == ["NKI101"]


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(ValueError, match="trn9"):
        query.check(source="", target="trn9")


def test_columns_count_characters() -> None:
    text = "import nki\n@nki.jit\ndef k(x):\n    s = 'äöü€𝄞'; y = x[0:999]\n    return y\n"
    (item,) = query.check(source=text, function="k", args=[spec((4, 4), "int8")], target="trn2")
    assert text.split("\n")[3][item.column - 1 : item.end_column - 1] == "x[0:999]"


# -- hover -----------------------------------------------------------------------------------------------------------

HOVERED = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


@nki.jit
def k(x: nt.tensor[128, 64], n=2):
    tile = nl.load(x)
    width = tile.shape[1] * n
    acc = nl.ndarray((128, width), nl.bfloat16, buffer=nl.psum)
    nisa.tensor_scalar(dst=acc, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
    tile = nl.ndarray((64, 8), nl.int8, buffer=nl.sbuf)
    for i in range(n):
        nl.exp(tile)
    return x
"""


def hovered(line: int, text: str) -> str:
    column = HOVERED.split("\n")[line - 1].index(text) + 1
    return query.hover(HOVERED, line, column, "k.py", target="trn2") or ""


@pytest.mark.parametrize(
    ("line", "text", "shown"),
    [
        (12, "tensor_scalar", "nisa.tensor_scalar(dst"),
        (12, "tensor_scalar", "Limits"),
        (12, "dst", "**dst** [P, F] in sbuf or psum"),
        (12, "op0", "**op0**"),
        (12, "multiply", "nl.multiply(x, y"),
        (12, "vector", "nisa.engine.vector"),
        (12, "tile", "`tile`: (128, 64) float32 in SBUF, 256 bytes per partition"),
        (12, "acc", "`acc`: (128, 128) bfloat16 in PSUM, 256 bytes per partition"),
        (9, "load", "nl.load(src"),
        (9, "tile", "(128, 64) float32 in SBUF"),
        (9, "x)", "`x`: (128, 64) float32 in HBM"),
        (8, "x:", "`x`: (128, 64) float32 in HBM"),
        (8, "n=", "`n`: 2"),
        (10, "width", "`width`: 128"),
        (11, "bfloat16", "2 bytes an element"),
        (13, "tile", "(64, 8) int8 in SBUF"),
        (14, "i in", "`i`: 0"),
        (15, "exp", "nl.exp"),
        (15, "tile", "(64, 8) int8 in SBUF"),
    ],
)
def test_hovers_tell_what_stands_there(line: int, text: str, shown: str) -> None:
    assert shown in hovered(line, text)


CALLS = """import nki, nki.isa as nisa, nki.language as nl, nki.typing as nt
@nki.jit
def k(x: nt.tensor[128, 64]):
    tile = nl.load(x)
    for i in range(3):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
    return x
"""


@pytest.mark.parametrize(
    ("line", "text", "shown"),
    [
        (6, "tensor_scalar", "**Here** on trn2: Vector Engine, "),
        (6, "tensor_scalar", "cycles ("),
        (6, "tensor_scalar", ", issued 3 times"),
        (6, "tensor_scalar", "- `data`: (128, 64) float32 in SBUF"),
        (6, "tensor_scalar", "**Limits** on trn2 (NeuronCore-v3)"),
        (6, "data", "here: (128, 64) float32 in SBUF"),
        (4, "load", "**Here** on trn2: DMA, 32768 bytes"),
    ],
)
def test_hovers_over_calls_tell_what_these_came_to(line: int, text: str, shown: str) -> None:
    column = CALLS.split("\n")[line - 1].index(text) + 1
    assert shown in (query.hover(CALLS, line, column, target="trn2") or "")


def test_defaults_are_spelt_as_in_nki() -> None:
    assert "buffer=nl.sbuf" in hovered(11, "ndarray")


def test_a_composite_tells_its_instructions() -> None:
    text = "import nki, nki.language as nl, nki.typing as nt\n@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    nl.softmax(nl.load(x))\n    return x\n"
    shown = query.hover(text, 4, 8, target="trn2") or ""
    assert "**Here** on trn2, 6 instructions:" in shown
    assert "- 1 × `nisa.activation`, Scalar Engine, " in shown


@pytest.mark.parametrize(("target", "shown"), [("trn2", "= 512 on trn2"), ("trn3", "on trn3 (NeuronCore-v4)")])
def test_sizes_of_tiles_are_those_of_the_target(target: str, shown: str) -> None:
    text = "import nki.language as nl\nn = nl.tile_size.gemm_moving_fmax\n"
    found = query.hover(text, 2, 20, target=target) or ""
    assert shown in found
    assert "documented: " in found
    assert query.hover(text.replace("gemm_moving_fmax", "nothing"), 2, 20, target=target) is None


def test_an_instruction_that_the_target_lacks_says_so() -> None:
    text = "import nki.isa as nisa\nnisa.exponential\n"
    assert "**NeuronCore-v3 (trn2) does not have it.**" in (query.hover(text, 2, 7, target="trn2") or "")
    assert "does not have it" not in (query.hover(text, 2, 7, target="trn3") or "")


def test_limits_are_shown_with_their_numbers() -> None:
    text = "import nki.isa as nisa\nnisa.nc_matmul\n"
    assert "- K <= pmax = 128 (NKI211)" in (query.hover(text, 2, 7, target="trn2") or "")


@pytest.mark.parametrize(("line", "column"), [(5, 1), (1, 1), (8, 2), (16, 5), (99, 1), (1, 999), (0, 0), (-1, -1)])
def test_hovers_over_nothing_are_none(line: int, column: int) -> None:
    assert query.hover(HOVERED, line, column) is None


def test_a_hover_in_a_helper_knows_its_variables() -> None:
    helper = "def helper(t):\n    u = nl.load(t)\n    return u\n"
    kernel = "@nki.jit\ndef k(x):\n    return helper(x)\nk(np.zeros((128, 64)))\n"
    text = f"import nki, nki.language as nl, numpy as np\n{helper}{kernel}"
    assert "(128, 64) float32 in SBUF" in (query.hover(text, 3, 5) or "")
    assert "(128, 64) float32 in SBUF" in (query.hover(text, 4, 12) or "")


@pytest.mark.parametrize("text", ["", "def (", "x", "x.y.z", "f(a=1)", "import nki\nnki.isa\n", "\0"])
def test_hovers_survive_any_text(text: str) -> None:
    for line in (1, 2):
        for column in range(1, 12):
            query.hover(text, line, column)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_instruction_has_a_hover(name: str) -> None:
    text = f"import nki.isa as nisa\nnisa.{name}\n"
    shown = query.hover(text, 2, 7) or ""
    assert f"nisa.{name}(" in shown
    assert all(operand in shown for operand in TABLE[name].operands)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_dtype_has_a_hover(name: str) -> None:
    assert f"`nl.{name}`" in (query.hover(f"import nki.language as nl\nnl.{name}\n", 2, 5) or "")


# -- explain ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("NKI213", "## Use instead"),
        ("nki213", "NKI213"),
        ("moving-limit", "NKI213"),
        ("nc_matmul", "nisa.nc_matmul(dst"),
        ("nisa.nc_matmul", "Limits"),
        ("nki.isa.nc_matmul", "stationary"),
        ("nl.add", "nl.add(x, y"),
        ("nki.language.softmax", "nl.softmax(x"),
        ("bfloat16", "2 bytes"),
        ("nl.activation", "nisa.activation"),
        ("average", "average"),
    ],
)
def test_names_are_explained(name: str, shown: str) -> None:
    if name == "nl.activation":
        assert query.explain(name) is None or shown in (query.explain(name) or "")
    else:
        assert shown in (query.explain(name) or "")


@pytest.mark.parametrize(
    "name", ["", "NKI000", "nope", "os", "nl", "nl.", "nki.isa.", "__class__", "nl.__class__", "x y"]
)
def test_names_of_nothing_are_not_explained(name: str) -> None:
    assert query.explain(name) is None


@pytest.mark.parametrize("name", sorted(name for name, value in namespaces.language_names().items() if callable(value)))
def test_functions_of_the_language_are_explained(name: str) -> None:
    assert query.explain(f"nl.{name}")
