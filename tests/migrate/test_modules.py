"""Imports, decorators, launches and simulation: what stands around the tiles of a kernel."""

from __future__ import annotations

import pytest

from tests.migrate.migrating import compared, migrate, specs

BODY = """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import neuronxcc.nki as nki", "import nki"),
        ("import neuronxcc.nki.language as nl", "import nki.language as nl"),
        ("from neuronxcc import nki", "import nki"),
        ("from neuronxcc import nki as kernels", "import nki as kernels"),
        ("from neuronxcc.nki.language import exp, load as get", "from nki.language import exp, load as get"),
        ("import os, neuronxcc.nki.isa as nisa", "import os\nimport nki.isa as nisa"),
        ("from neuronxcc.nki.isa.constants import dge_mode", "from nki.isa import dge_mode"),
        ("import os; import neuronxcc.nki.typing as nt  # both", "import os; import nki.typing as nt  # both"),
    ],
)
def test_imports(before: str, after: str) -> None:
    assert migrate(f"# head\n{before}\n\nx = 1\n").text == f"# head\n{after}\n\nx = 1\n"


def test_a_module_that_is_no_part_of_nki_is_left_and_told() -> None:
    text = "from neuronxcc.starfish.support.dtype import bfloat16\nimport neuronxcc.nki as nki\n"
    done = migrate(text)
    assert done.text == text.replace("import neuronxcc.nki as nki", "import nki")
    assert [(item.code, item.line) for item in done.findings] == [("NKI610", 1)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@nki.jit(mode='simulation', platform_target='trn2')\n", "@nki.jit\n"),
        ("@nki.jit(mode='trace')\n", ""),
        ("@nki.trace\n", ""),
        ("@nki.baremetal\n", "@nki.jit\n"),
        ("@nki.baremetal(save_neff_name='a')\n", "@nki.jit\n"),
        ("@nki.jit\n@ncc.skip_middle_end_transformations\n", "@nki.jit\n"),
        ("@ncc.skip_middle_end_transformations\n@nki.jit\n", "@nki.jit\n"),
    ],
)
def test_decorators(before: str, after: str) -> None:
    head = (
        "import neuronxcc.nki as nki\nimport neuronxcc.nki.compiler as ncc\nimport neuronxcc.nki.language as nl\n\n\n"
    )
    new = head.replace("neuronxcc.nki as nki", "nki").replace("neuronxcc.", "")
    assert migrate(f"{head}{before}def kernel(x):{BODY}").text == f"{new}{after}def kernel(x):{BODY}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nki.simulate_kernel(kernel, a, b, scale=2)", "nki.simulate(kernel)(a, b, scale=2)"),
        ("nki.simulate_kernel(kernel[2], a)", "nki.simulate(kernel[2])(a)"),
        ("nki.baremetal()(plain)(a)", "nki.jit(plain)(a)"),
        ("nki.baremetal(plain)(a)", "nki.jit(plain)(a)"),
        ("nki.jit(plain, mode='baremetal')(a)", "nki.jit(plain)(a)"),
    ],
)
def test_callers(before: str, after: str) -> None:
    assert migrate(f"import neuronxcc.nki as nki\n\nresult = {before}\n").text == f"import nki\n\nresult = {after}\n"


def test_timing_is_left_to_the_author() -> None:
    text = "import neuronxcc.nki as nki\n\n\n@nki.benchmark(warmup=2)\ndef kernel(x):\n    return x\n"
    done = migrate(text)
    assert "@nki.benchmark(warmup=2)" in done.text
    (found,) = done.findings
    assert (found.code, found.line) == ("NKI610", 4) and "nki_lab.profile" in found.help


GRID = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    # each program has a tile
    row = nl.program_id(0) * 128
    column = nl.program_id(1) * 256
    tile = nl.load(x[row:row + 128, column:column + 256])
    nl.store(out[row:row + 128, column:column + 256], nl.exp(tile))
    return out


def launch(a):
    return kernel[a.shape[0] // 128, 2](a)
"""


def test_programs_of_a_grid_are_iterations() -> None:
    done = migrate(GRID, specs(x="float32 256 512"))
    assert not done.findings
    assert "def kernel(x, programs_0=1, programs_1=1):" in done.text
    assert "    for program_0 in range(programs_0):\n        for program_1 in range(programs_1):\n" in done.text
    assert "            column = program_1 * 256\n" in done.text
    assert "    return kernel(a, programs_0=a.shape[0] // 128, programs_1=2)\n" in done.text
    arguments = specs(x="float32 128 256")
    (verdict,) = compared(GRID, done, arguments)
    assert verdict.outcome == "equal", verdict.text


def test_callers_keep_the_array_that_a_kernel_filled() -> None:
    text = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, out):
    nl.store(out, nl.load(x))


def use(a, b):
    nki.simulate_kernel(kernel, a, b)
"""
    done = migrate(text)
    assert "    b[...] = nki.simulate(kernel)(a, b)\n" in done.text


def test_no_comment_and_no_line_of_others_is_lost() -> None:
    text = """\
import neuronxcc.nki as nki  # first
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

TABLE = {1:2 ,3 : 4}   # odd   spacing


@nki.jit
def kernel(x):
    # about the output
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    y = nisa.activation(op=nl.exp,  # the exponential
                        data=nl.load(x))  # of x
    if True: z = nisa.reciprocal(y)
    a = 1; w = nisa.reciprocal(z); b = 2
    nl.store(out, w)  # done
    return out
"""
    arguments = specs(x="float32 128 512")
    done = migrate(text, arguments)
    assert not done.findings
    for comment in ("# first", "# odd   spacing", "# about the output", "# the exponential", "# of x", "# done"):
        assert done.text.count(comment) == 1
    assert "TABLE = {1:2 ,3 : 4}   # odd   spacing\n" in done.text
    (verdict,) = compared(text, done, arguments)
    assert verdict.outcome == "equal", verdict.text


def test_comments_of_index_expressions_that_go_stay() -> None:
    text = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    # rows
    i_p = nl.arange(128)[:, None]  # noqa: N806
    i_f = nl.arange(  # columns
        x.shape[1]
    )[None, :]  # the last tile is full
    nl.store(out[i_p, i_f], nl.load(x[i_p, i_f]))
    return out
"""
    done = migrate(text, specs(x="float32 128 512"))
    kept = """\
    # rows
    # columns
    # the last tile is full
    nl.store(out[0:128, 0:x.shape[1]], nl.load(x[0:128, 0:x.shape[1]]))
"""
    assert kept in done.text
    assert "noqa" not in done.text


@pytest.mark.parametrize(
    "text",
    ["", "x = 1\n", "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef k(x):\n    return nl.exp(x)\n"],
)
def test_what_is_not_of_beta_1_is_left_alone(text: str) -> None:
    assert migrate(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "import neuronxcc.nki as nki\ndef k(:\n",
        "import neuronxcc.nki as nki\nx = (\n",
        "\0",
        "import neuronxcc.nki as nki\n\tx\n y",
    ],
)
def test_what_is_no_python_is_told_and_left_alone(text: str) -> None:
    done = migrate(text)
    assert done.text == text and done.findings and done.findings[0].code == "NKI101"


@pytest.mark.parametrize(
    "line",
    [
        "y = [nisa.reciprocal(nl.load(x)) for _ in range(2)][0]", "y = (lambda: nisa.reciprocal(nl.load(x)))()",
        "y = nisa.reciprocal(*[nl.load(x)])", "y = nl.load(x, mask=(nl.arange(128)[:, None] < nl.arange(512)[None, :]))",
    ],
)  # fmt: skip
def test_what_is_not_safe_is_a_finding_at_its_line(line: str) -> None:
    text = (
        "import neuronxcc.nki as nki\nimport neuronxcc.nki.isa as nisa\nimport neuronxcc.nki.language as nl\n\n\n"
        f"@nki.jit\ndef kernel(x):\n    {line}\n    return y\n"
    )
    done = migrate(text, specs(x="float32 128 512"))
    assert [(item.code, item.line) for item in done.findings] == [("NKI610", 8)]
    assert f"    {line}\n" in done.text
    assert done.findings[0].help
