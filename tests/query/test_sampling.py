"""Functions that nobody calls: what assumed arguments find is what all of them find."""

from __future__ import annotations

import random
import re

import pytest

from nki_lab import check
from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, kernels
from tests.fuzz import typing_again

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


def made(space=nl.psum):
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=space)
    nisa.memset(tile, value=0.0)
    return tile

"""


def found(source: str) -> list[tuple[str, int]]:
    """The errors in code below `HEAD`, by code and line."""
    lines = HEAD.count("\n")
    findings = check("k.py", source=HEAD + source)
    return [(item.code, item.line - lines) for item in findings if item.severity == "error"]


@pytest.mark.parametrize("head", ["def kernel(x, wide: bool):", "@nki.jit\ndef kernel(x, wide):"])
def test_a_fault_that_no_argument_changes_is_found(head: str) -> None:
    line = head.count("\n") + 1
    body = """
    for _ in range(2):
        nisa.nc_matmul(made(nl.sbuf), made(nl.sbuf), x)
    if wide:
        nisa.dma_copy(dst=made(), src=x)
    nisa.tensor_copy(dst=made()[0:64], src=made()[0:32])
    return x
"""
    assert found(head + body) == [("NKI201", line + 2), ("NKI201", line + 4), ("NKI203", line + 5)]


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    nisa.tensor_copy(dst=made(), src=x)\n",
        "def f(x, n: int):\n    nisa.tensor_copy(dst=made()[0:n], src=x)\n",
        "def f(n: int):\n    if n > 4:\n        raise ValueError(n)\n    nisa.memset(made()[0 : 32 * n], value=0.0)\n",
        "def f(x, n: int):\n    assert n == 512\n    nisa.tensor_copy(dst=made(), src=made()[:, 0:n])\n",
        "def f(x):\n    space = nl.sbuf if x.shape[0] > 64 else nl.psum\n    nisa.dma_copy(dst=made(space), src=x)\n",
        "def f(x):\n    if x.buffer == nl.psum:\n        nisa.tensor_copy(dst=made(), src=x)\n",
        "def f(x):\n    rows, columns = x.shape\n    nisa.tensor_copy(dst=made()[0:rows, 0:columns], src=x)\n",
        "def f(dtype):\n    tile = nl.ndarray((128, 8), dtype=dtype, buffer=nl.sbuf)\n    nisa.max8(dst=tile, src=tile)\n",
    ],
)
def test_what_depends_on_an_argument_is_none(source: str) -> None:
    assert found(source) == []


def test_a_dtype_that_is_right_beside_one_that_no_run_assumes_is_no_fault() -> None:
    tile = "    tile = nl.ndarray((128, 512), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)\n"
    assert found(f"def f(x):\n{tile}    nisa.dma_copy(dst=tile, src=x)\n") == []
    wrong = f"def f(x):\n{tile}    nisa.activation(dst=tile, op=nl.exp, data=x)\n"
    assert [code for code, _ in found(wrong)] == ["NKI202"]


def test_what_depends_on_the_way_of_a_test_is_none() -> None:
    source = """
def one(a: bool, b: bool):
    tile = made(nl.psum if a else nl.sbuf)
    if b:
        nisa.dma_copy(tile, made(nl.sbuf))


def two(a, b):
    tile = made()
    if a:
        tile = made(nl.sbuf)
    if b:
        nisa.nc_matmul(tile, made(nl.sbuf)[:, 0:128], made(nl.sbuf))
"""
    assert found(source) == []


def test_what_depends_on_a_default_is_none() -> None:
    source = """
def scaled(dtype={}):
    scale = nl.ndarray((128, 1), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(made(nl.sbuf), made(nl.sbuf), nl.multiply, scale)
"""
    assert found(source.format("nl.bfloat16")) == []
    assert found(source.replace("dtype=dtype", "dtype=nl.bfloat16").format("None")) == [("NKI202", 4)]


def test_tests_of_the_module_itself_go_as_they_do() -> None:
    source = """
WIDE = False
if WIDE:
    def other():
        return made(nl.sbuf)
else:
    def other():
        return made()


def copied(x):
    nisa.dma_copy(dst=other(), src=x)


if __name__ == "__main__":
    print(None)
"""
    assert found(source) == [("NKI201", 12)]


def test_functions_that_run_on_the_host_are_not_sampled() -> None:
    copied = "def copied(x):\n    nisa.dma_copy(dst=made(), src=x)\n"
    assert found(copied) == [("NKI201", 2)]
    assert found(copied.replace("copied", "test")) == []
    assert found(copied + 'if __name__ == "__main__":\n    copied(None)\n') == []


def test_one_fault_of_a_call_is_one_finding() -> None:
    source = """
def f(x):
    part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(part, x, x)
    nisa.nc_matmul(made(nl.sbuf), x, x, perf_mode="fast")
    nisa.nc_matmul(made(nl.sbuf), x, x, perf_mode=nisa.matmul_perf_mode.fast)
    nisa.memset(part, valu=0.0)
"""
    assert found(source) == [("NKI201", 4), ("NKI012", 5), ("NKI006", 6), ("NKI002", 7)]


def all_found(source: str, *, possible: bool = False) -> list[str]:
    """The messages of errors, and with `possible` of what is wrong for some arguments."""
    findings = check("k.py", source=HEAD + source, possible=possible)
    return [item.message for item in findings if item.code != "NKI121"]


COPIED = """
@nki.jit
def copied(x, y):
    R, C = x.shape
    for r in range(R // 128):
        tile = nl.ndarray((128, {columns}), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(r * 128, {rows}), {start}:{stop}])
"""
RIGHT = {"columns": "C", "rows": "128", "start": "0", "stop": "C"}


@pytest.mark.parametrize(
    "change",
    [
        {"columns": "2 * C"},
        {"columns": "C // 2"},
        {"columns": "C + 1"},
        {"columns": "C - y.shape[0] + y.shape[0] + 4"},
        {"rows": "64"},
        {"stop": "C + 1"},
        {"stop": "C - 1"},
        {"start": "1", "stop": "C + 1"},
    ],
)
def test_sizes_that_differ_for_all_arguments_are_found(change: dict[str, str]) -> None:
    assert found(COPIED.format(**RIGHT)) == []
    assert [code for code, _ in found(COPIED.format(**RIGHT | change))] in (["NKI203"], ["NKI303"])


@pytest.mark.parametrize(
    "change",
    [
        {"columns": "y.shape[1]"},
        {"columns": "2 * y.shape[1]"},
        {"columns": "256"},
        {"columns": "min(C, 512)"},
        {"columns": "C // 2 * 2"},
        {"columns": "(C + 127) // 128 * 128"},
        {"columns": "256", "stop": "min(C, 512)"},
        {"columns": "8", "stop": "min(C, 512)"},
        {"columns": "C // 2 * 2 + 1"},
        {"stop": "2 * y.shape[0]"},
    ],
)
def test_sizes_that_agree_for_some_arguments_are_no_finding(change: dict[str, str]) -> None:
    assert found(COPIED.format(**RIGHT | change)) == []


def test_a_relation_that_an_assert_demands_counts() -> None:
    source = COPIED.format(**RIGHT | {"columns": "2 * y.shape[1]"})
    assert found(source.replace("    R, C", "    assert x.shape[1] == y.shape[1]\n    R, C", 1)) != []
    assert found(source.replace("    R, C", "    assert x.shape[1] == 2 * y.shape[1]\n    R, C", 1)) == []


def test_what_is_wrong_for_some_arguments_is_shown_on_request_with_a_value() -> None:
    source = COPIED.format(**RIGHT).replace("R // 128", "(R + 127) // 128")
    assert all_found(source) == []
    (message,) = all_found(source, possible=True)
    assert message == "for x.shape[0] = 100: nl.ds size 128 runs outside dimension 0, which has 100 elements"


def copying(source: str, result: str, test: str = "") -> str:
    """A kernel that copies one tile to another, of these shapes."""
    return f"""
@nki.jit
def kernel(x, n: int):
    P, N = x.shape
    {test}
    source = nl.ndarray({source}, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(source, value=0.0)
    result = nl.ndarray({result}, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=source)
    return result
"""


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("(128, min(N, 32))", "(128, 16)"),  # right for N = 16
        ("(128, 128 + N // 4096)", "(128, 129)"),  # for 4096
        ("(128, 128 + max(0, N - 4096))", "(128, 256)"),  # for 4224
        ("(128, N)", "(128, N + 128 - N // 4096 * 128)"),
        ("(128, 128 * (1 + (N == 16)))", "(128, 256)"),
        ("(128, 256 if N == 7 else 128)", "(128, 256)"),
        ("(128, 64 * min(n, 2))", "(128, 64)"),  # for n = 1
        ("(128, (N + 1) // 2)", "(128, N // 2 + 1)"),  # for even ones
        ("(128, N // 2)", "(128, (N - 1) // 2)"),  # for odd ones
        ("(128, 128 + N % 2 * (N > 200))", "(128, 129)"),
        ("(128, n * n)", "(128, 2 * n)"),  # for n = 2
    ],
)
def test_sizes_that_are_right_for_some_values_are_no_fault(source: str, result: str) -> None:
    assert found(copying(source, result)) == []


def test_sizes_that_are_right_for_no_value_are_a_fault() -> None:
    assert found(copying("(128, N)", "(128, 2 * N)")) == [("NKI203", 9)]
    assert found(copying("(128, N)", "(128, N + 1)")) == [("NKI203", 9)]
    assert found(copying("(128, N)", "(128, 2 * N)", "assert N % 128 == 0")) == [("NKI203", 9)]
    assert found(copying("(128, len(x.shape))", "(128, 3)")) == [("NKI203", 9)]


def test_loops_that_small_sizes_do_not_run_to_the_end_are_no_fault() -> None:
    source = """
@nki.jit
def kernel(x):
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(x.shape[1] // 4):
        nisa.memset(tile[:, i * 128 : i * 128 + 128], value=0.0)
    return tile
"""
    assert found(source) == []


def test_loops_that_may_run_once_have_no_fault_of_a_later_iteration() -> None:
    source = """
@nki.jit
def kernel(x):
    K, N = x.shape
    result = nl.ndarray((K, N), dtype=nl.float32, buffer=nl.shared_hbm)
    for k in range(K // 128):
        tile = nl.ndarray((128, N), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, value=0.0)
        nisa.dma_copy(dst=result[k * 129 : (k + 1) * 128, :], src=tile)
    return result
"""
    assert found(source) == []


def test_tests_of_names_in_capitals_are_turned() -> None:
    source = """
def kernel(x):
    N = x.shape[1]
    space = nl.psum if N > 5000 and N % 7 == 3 else nl.sbuf
    nisa.nc_matmul(made(space), made(nl.sbuf)[:, 0:128], made(nl.sbuf))
"""
    assert found(source) == []


@pytest.mark.parametrize(
    ("more", "number"),
    [
        ("", 1),
        ("    nisa.tensor_copy(dst=result[0:rows], src=tile[0:rows])\n", 3),  # rows that fit are found in a third run
        ("    if rows > 7:\n        tile = tile[0:64]\n", 4),
    ],
    ids=["right for the first values", "right for others", "two ways"],
)
def test_a_function_without_a_fault_is_evaluated_few_times(
    more: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"""
@nki.jit
def kernel(x):
    rows = x.shape[0]
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:128, 0:512])
{more}    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0 : tile.shape[0]], src=tile)
    return out
"""
    calls, evaluate = [], kernels.evaluate
    monkeypatch.setattr(kernels, "evaluate", lambda *args, **kwargs: calls.append(1) or evaluate(*args, **kwargs))
    assert [item.code for item in check("k.py", source=HEAD[: HEAD.index("def")] + source)] == ["NKI121"]
    assert len(calls) == number


@pytest.mark.parametrize("seed", range(40))
def test_runs_that_are_left_out_find_nothing(seed: int) -> None:
    """Where a reader wants to know what variables are, all runs are made."""
    draw = random.Random(seed)
    text = re.sub(r": nt\.tensor\[[^]]*]", "", draw.choice(typing_again.texts()))
    for _ in range(draw.randrange(4)):
        number = draw.choice(list(re.finditer(r"\b\d+\b", text)))
        text = text[: number.start()] + draw.choice(("0", "1", "127", "129", "512", "513")) + text[number.end() :]
    document = Document("k.py")
    document.update(text)
    few, all_ = (
        document.examine(EvaluationRequest(arch=arch_of("trn2"), describes=describes)) for describes in (False, True)
    )
    assert few.findings == all_.findings
