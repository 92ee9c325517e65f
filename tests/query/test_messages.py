"""Where findings stand, and what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import Diagnostic
from nki_lab.query import check

_HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

"""
_LINES = _HEAD.count("\n")


def findings(source: str) -> list[Diagnostic]:
    return check("kernel.py", source=_HEAD + source, target="trn2")


_WIDE = """\
def made(x):
    return nl.ndarray((256, 64), x.dtype, buffer=nl.sbuf)

@nki.jit
def kernel(x: nt.tensor[(256, 64), nl.float32]):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a = {made}
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=a{part}, src=a{part})
    nisa.dma_copy(dst=out, src=a)
    return out
"""


@pytest.mark.parametrize("made", ["nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)",
                                  "nl.ndarray((256, 64), x.dtype, buffer=nl.sbuf)"])  # fmt: skip
def test_a_tensor_with_too_many_partitions_is_told_once_at_its_allocation(made: str) -> None:
    (found,) = findings(_WIDE.format(made=made, part=""))
    assert (found.code, found.line - _LINES) == ("NKI204", 7)
    assert found.message == "'a' has 256 partitions, the memory has 128"
    uses = [item for item in found.related if item.span is not None and item.span.line - _LINES == 8]
    assert [item.message for item in uses] == ["dma_copy uses all of it as dst"]


def test_views_past_the_last_partition_are_told_where_they_are_used() -> None:
    found = findings(_WIDE.format(made="nl.ndarray((256, 64), x.dtype, buffer=nl.sbuf)", part="[100:200]"))
    assert [(item.code, item.line - _LINES) for item in found] == [("NKI204", 7), ("NKI204", 9)]


def test_what_a_helper_allocates_is_told_where_it_is_used() -> None:
    found = findings(_WIDE.format(made="made(x)", part=""))
    assert {(item.code, item.line - _LINES) for item in found} == {("NKI204", 8), ("NKI204", 9), ("NKI204", 10)}


@pytest.mark.parametrize("signature", ["x", "x: nt.tensor[(128, 64), nl.float32]"])
@pytest.mark.parametrize("line", ["nisa.memset(dst=x, 'é', valu\u00e9=0.0)", "nisa.memset(dst=x, value=0.0, scr=0)",
                                  "nl.ndarray((128, 64), nl.float32, bufer=nl.sbuf)"])  # fmt: skip
def test_a_misspelled_keyword_is_underlined_itself(signature: str, line: str) -> None:
    source = f"@nki.jit\ndef kernel({signature}):\n    {line.replace(chr(39) + 'é' + chr(39) + ', ', '')}\n"
    (found,) = [item for item in findings(source) if item.code == "NKI002"]
    text = source.split("\n")[2]
    assert text[found.column - 1 : found.end_column - 1] in ("valué", "scr", "bufer")
    assert found.line == found.end_line == _LINES + 3


_CHECKS = {
    "raise": "    if not cond:\n        raise ValueError(msg)\n",
    "assert": '    """Check."""\n    assert cond, f"no: {msg}"\n',
    "false": "    if not cond:\n        assert False, msg\n",
}
_CHECKED = """\
import nki
import nki.language as nl
import numpy as np

def kernel_assert(cond, msg):
{body}
@nki.jit
def kernel(x):
    M, N = x.shape
    kernel_assert(N > 0, "no columns")
    kernel_assert(msg=f"{{M}} rows", cond=M % 128 == 0)
    return nl.load(x)

kernel(np.zeros((100, 64), np.float32))
"""


@pytest.mark.parametrize("body", _CHECKS.values(), ids=_CHECKS.keys())
def test_the_fault_of_a_checking_function_stands_at_its_call(body: str, tmp_path: Path) -> None:
    source = _CHECKED.format(body=body)
    (found,) = [item for item in check("kernel.py", source=source, target="trn2") if item.code == "NKI007"]
    lines = source.split("\n")
    assert lines[found.line - 1][found.column - 1 : found.end_column - 1] == "M % 128 == 0"
    assert found.limit == "M % 128 == 0, with M = 100"
    assert "100 rows" in found.message
    raised = found.related[0]
    assert raised.message == "it is raised here"
    assert raised.span is not None
    assert lines[raised.span.line - 1].strip().startswith(("raise", "assert"))
    (tmp_path / "checked_kernel.py").write_text(source.rpartition("kernel(")[0])
    space: dict[str, Any] = runpy.run_path(str(tmp_path / "checked_kernel.py"))
    with pytest.raises(nki_lab.NkiError) as caught:
        nki_lab.run(space["kernel"], np.zeros((100, 64), np.float32), target="trn2")
    (run,) = caught.value.diagnostics
    assert (run.line, run.column, run.limit, run.message) == (found.line, found.column, found.limit, found.message)


@pytest.mark.parametrize("body", ["    M = 1\n    assert cond, msg\n", "    assert not cond, msg\n",
                                  "    if not cond:\n        print(msg)\n        raise ValueError(msg)\n"])  # fmt: skip
def test_other_helpers_keep_their_faults(body: str) -> None:
    source = _CHECKED.format(body=body).replace(
        "cond=M % 128 == 0", f"cond={'not ' in body.split('if', maxsplit=1)[0]}"
    )
    found = [item for item in check("kernel.py", source=source, target="trn2") if item.code == "NKI007"]
    assert found
    assert all(item.line <= source[: source.index("@nki.jit")].count("\n") for item in found)


_STORED = """\
@nki.jit
def kernel(x):
    M, N = x.shape
    out = nl.ndarray((128, N), x.dtype, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, N), x.dtype, buffer=nl.sbuf)
    t = nl.ndarray((128, N), x.dtype, buffer=nl.sbuf)
    {body}
    return out

kernel(np.zeros((128, 64), np.float32))
"""
_DEAD = [
    "nisa.memset(dst=acc, value=0.0)\n    nisa.dma_copy(dst=acc, src=x)\n    nisa.dma_copy(dst=out, src=acc)",
    "for i in range(M // 128):\n        nisa.memset(dst=t, value=0.0)\n    nisa.dma_copy(dst=out, src=x)",
    ("nisa.memset(dst=t, value=0.0)\n    if M > 128:\n        nisa.memset(dst=t, value=1.0)\n"
    "    nisa.dma_copy(dst=out, src=x)"),
    ("for i in range(1):\n        nisa.memset(dst=acc, value=0.0)\n        nisa.dma_copy(dst=acc[0:128], src=x)\n"
    "    nisa.dma_copy(dst=out, src=acc)"),
]  # fmt: skip
_ALIVE = [
    "nisa.memset(dst=acc, value=0.0)\n    nisa.dma_copy(dst=acc[0:M], src=x)\n    nisa.dma_copy(dst=out, src=acc)",
    ("nisa.memset(dst=acc, value=0.0)\n    for i in range(M // 128):\n        nisa.dma_copy(dst=acc, src=x)\n"
    "    nisa.dma_copy(dst=out, src=acc)"),
    ("nisa.memset(dst=acc, value=0.0)\n    if M == 128:\n        nisa.dma_copy(dst=acc, src=x)\n"
    "    nisa.dma_copy(dst=out, src=acc)"),
    ("nisa.memset(dst=acc, value=0.0)\n    nisa.dma_copy(dst=out, src=x)\n"
    "    for i in range(1, M // 128):\n        nisa.dma_copy(dst=out, src=acc)"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "dead"), [*((body, True) for body in _DEAD), *((body, False) for body in _ALIVE)])
def test_a_store_that_is_dead_for_these_shapes_only_is_not_called_dead(body: str, dead: bool) -> None:
    found = findings("import numpy as np\n" + _STORED.format(body=body))
    assert {item.code for item in found if item.code not in ("NKI108", "NKI301")} == ({"NKI414"} if dead else set())


_HOST = [
    'logger.info(f"{x.shape} {b.shape}")', 'os.environ.get("A")', "print(x, b)", 'os.environ["A"] = "1"',
    'mode = os.environ.get("A")\n    if mode:\n        logger.debug(mode, x.shape)', "n = time.time() * 2",
    'n = int(os.environ.get("N", "4"))\n    for i in range(n):\n        print(i)', "names = []; logger.info(names)",
]  # fmt: skip


@pytest.mark.parametrize("host", _HOST)
def test_host_code_without_tensors_disables_no_rule_about_tensors(host: str) -> None:
    body = f"b = acc\n    {host}\n    nisa.tensor_copy(dst=acc, src=t)\n    nisa.dma_copy(dst=out, src=x)"
    found = findings("import os, time\nimport numpy as np\nfrom log import logger\n" + _STORED.format(body=body))
    assert {"NKI301", "NKI414"} <= {item.code for item in found}


_KERNEL = """\
@nki.jit
def kernel(x: nt.tensor[(128, 64), nl.float32]):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (f"class Kernels:\n{indent(_KERNEL, '    ')}", "is defined in the class Kernels"),
        (f"def made():\n{indent(_KERNEL, '    ')}    return kernel\n", "is defined inside another function"),
        (f"if True:\n{indent(_KERNEL, '    ')}else:\n{indent(_KERNEL, '    ')}", "another definition of the name"),
    ],
)
def test_a_kernel_that_is_not_evaluated_is_told_why(source: str, says: str) -> None:
    (found,) = findings(source)
    assert found.code == "NKI122"
    assert says in found.message


@pytest.mark.parametrize(
    "fault", ["        nl.store(out, nl.load(x))", "    nl.store(out, nl.load(x)))", "    nl.store(out"]
)
def test_lines_that_cannot_be_read_may_write_the_result(fault: str) -> None:
    found = findings(_KERNEL.replace("    nl.store(out, nl.load(x))", fault))
    assert {item.code for item in found} == {"NKI101"}


def test_lines_of_another_function_that_cannot_be_read_hide_nothing() -> None:
    unwritten = _KERNEL.replace("    nl.store(out, nl.load(x))\n", "")
    found = findings(f"def torn():\n    x = )\n\n\n{unwritten}\n\ndef torn():\n    x = )\n")
    assert [item.code for item in found] == ["NKI101", "NKI308", "NKI101"]


@pytest.mark.parametrize(
    "endless", ["for i in range(10**9):\n    pass", "while True:\n    pass", "K = sum(range(10**12))"]
)
@pytest.mark.parametrize("times", [1, 6])
def test_an_endless_statement_of_a_module_hides_no_kernel(endless: str, times: int) -> None:
    wide = _KERNEL.replace("128, 64", "256, 64")
    found = findings(f"{endless}\n" * times + wide)
    assert [item.code for item in found if item.severity == "information"] == ["NKI120"] * times
    assert [item.code for item in found if item.severity == "error"] == ["NKI204"]


_LOGGED = """import functools

def logged(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner

"""


@pytest.mark.parametrize("decorators", ["@logged\n@nki.jit", "@nki.jit\n@logged"])
def test_the_annotations_of_a_decorated_kernel_are_shapes(decorators: str) -> None:
    wide = _KERNEL.replace("128, 64", "256, 64").replace("@nki.jit", decorators)
    assert [item.code for item in findings(_LOGGED + wide)] == ["NKI204"]
