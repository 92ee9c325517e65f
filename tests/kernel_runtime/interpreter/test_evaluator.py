"""What the evaluator does beyond what a run does: it goes on after a fault, and past what it does not know."""

from __future__ import annotations

import sys
import textwrap
from typing import Any

import pytest

from nki_lab import query, spec
from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.interpreter import Evaluation, ModuleSource, Signature, evaluate
from nki_lab.kernel_runtime.ir import verify

HEAD = """import os
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
import numpy as np
import torch
import third_party
"""


def kernel(body: str, module: str = "", parameters: str = "x") -> str:
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"{HEAD}{textwrap.dedent(module)}\n@nki.jit\ndef k({parameters}):\n{inner}\n"


def evaluation(text: str, *args: Any, target: str = "trn2", **kwargs: Any) -> Evaluation:
    made = evaluate(
        ModuleSource.parse(text, "k.py"),
        "k",
        Signature(args=args or (spec((128, 64), "float32"),), kwargs=kwargs),
        arch=target,
    )
    verify(made.program)
    return made


def found(body: str, module: str = "", parameters: str = "x", *args: Any) -> list[tuple[str, str]]:
    """Codes, each with the source it is at, but for that of `third_party`, which is not there (NKI124)."""
    text = kernel(body, module, parameters)
    items = query.check(
        source=text, path="k.py", function="k", args=args or [spec((128, 64), "float32")], target="trn2"
    )
    return [(item.code, at(text, item)) for item in items if item.code != "NKI124"]


def at(text: str, item: Diagnostic) -> str:
    line = text.split("\n")[item.line - 1]
    return line[item.column - 1 : item.end_column - 1] if item.line == item.end_line else line[item.column - 1 :]


# -- recovery ---------------------------------------------------------------------------------------------------------


def test_independent_faults_are_both_found() -> None:
    assert found("""
        tile = nl.load(x)
        nisa.tensor_copy(dst=tile, src=x)
        wide = x.reshape((3, 3))
        nisa.memset(dst=tlie, value=0.0)
        return x[0:200]
        """) == [
        ("NKI201", "x"),
        ("NKI305", "x.reshape((3, 3))"),
        ("NKI102", "tlie"),
        ("NKI303", "x[0:200]"),
    ]


def test_a_fault_s_children_are_silent() -> None:
    assert found("""
        tile = nl.ndarray((128, 64), nl.flaot32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        other = nl.add(tile, tile)
        part = other[0:500]
        for i in range(part.shape[0]):
            nisa.tensor_copy(dst=part[i:i], src=tile)
        if part.shape[0] > 3:
            return part
        return tile + other * part.missing(3)[7]
        """) == [("NKI006", "nl.flaot32"), ("NKI006", "part.missing")]


def test_a_refused_instruction_counts_as_having_written() -> None:
    assert found("""
        tile = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[0:64])
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out
        """) == [("NKI203", "x[0:64]")]


def test_reads_of_unwritten_memory_are_found_beside_a_fault() -> None:
    codes = [
        code
        for code, _ in found("""
        tile = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=x)
        fresh = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=fresh)
        return out
        """)
    ]
    assert codes == ["NKI201", "NKI301"]


def test_a_fault_in_a_loop_is_said_once() -> None:
    assert found("""
        for i in range(50):
            nl.load(x[i * 64 : i * 64 + 64])
        """) == [("NKI303", "x[i * 64 : i * 64 + 64]")]


def test_a_fault_in_a_helper_is_said_once_and_inside_it() -> None:
    helper = """
        def helper(t):
            return t[0:500]
        """
    assert found("nl.load(helper(x))\nnl.load(helper(x))\nnl.load(x[0:300])", helper) == [
        ("NKI303", "t[0:500]"),
        ("NKI303", "x[0:300]"),
    ]


def test_a_failed_assert_ends_its_function_only() -> None:
    helper = """
        def helper(t):
            assert t.shape[0] == 1, "one row"
            return t[0:900]
        """
    # The place is Python's own, which in 3.12 is the whole statement.
    place = "t.shape[0] == 1" if sys.version_info[:2] != (3, 12) else 'assert t.shape[0] == 1, "one row"'
    assert found("y = helper(x)\ny[5]\nnl.load(x[0:300])", helper) == [("NKI007", place), ("NKI303", "x[0:300]")]


def test_a_fault_s_condition_is_no_news() -> None:
    assert found("if undefined: nl.load(x[0:500])\nnl.load(x[0:300])") == [
        ("NKI102", "undefined"),
        ("NKI303", "x[0:300]"),
    ]


def test_every_path_of_a_try_that_catches_is_quiet() -> None:
    assert not found("try:\n    nl.load(x[0:500])\nexcept IndexError:\n    pass\nreturn x")[
        1:
    ]  # but for the rule on try


def test_a_fault_that_no_handler_catches_is_found() -> None:
    assert ("NKI303", "x[0:500]") in found("try:\n    nl.load(x[0:500])\nexcept KeyError:\n    pass\nreturn x")


# -- the unknown ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["third_party.best(x)", "os.environ['A']", "torch.float32", "third_party", "open('f').read()",
     "np.random.rand(3)", "np.load('f')", "third_party.v + 1", "-third_party.v", "third_party.v[0].a(3)",
     "int(os.getpid())", "f'{os.name}'", "third_party.v if third_party.v else 1", "third_party.v and 1",
     "not third_party.v", "third_party.v < 3 < 4", "3 in third_party.v", "[i for i in third_party.v]",
     "{third_party.v: 1}", "max(third_party.v, 1)", "(lambda: third_party.v)()", "sorted([third_party.v, 1])",
     "next(third_party)", "x.numpy()", "nl.load.__globals__", "x.__class__", "{**third_party.v}",
     "[*third_party.v]", "third_party.f(*third_party.v, **third_party.v)"],
)  # fmt: skip
def test_unknown_values_propagate_silently(value: str) -> None:
    body = f"""
        v = {value}
        tile = nl.ndarray((128, v), x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile[0:v], value=v)
        nisa.tensor_copy(dst=tile, src=tile, engine=v)
        w = tile.shape[0] + v, len(v), v.attribute, v(1), v[1:], str(v)
        a, b = v
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out
        """
    assert not [item for item in evaluation(kernel(body)).diagnostics if item.code != "NKI607"]


def test_an_unknown_condition_is_said_and_its_branches_are_doubtful() -> None:
    items = found("""
        n = 3
        tiles = [nl.load(x)]
        table = {"a": 1}
        fresh = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
        if third_party.flag:
            n = 500
            tiles.append(nl.load(x))
            table["b"] = 2
            nisa.memset(dst=fresh, value=0.0)
            nl.load(x[0:999])
        nl.load(x[0:n])
        tiles[1]
        table["b"]
        nl.store(x, fresh)
        return x[0:300]
        """)
    assert items == [("NKI122", "third_party.flag"), ("NKI303", "x[0:300]")]


@pytest.mark.parametrize("loop", ["for i in third_party.items:", "while third_party.flag:"])
def test_an_unknown_loop_is_said_and_not_entered(loop: str) -> None:
    items = found(f"n = 3\n{loop}\n    n += 1\n    nl.load(x[0:999])\nnl.load(x[0:n])\nreturn x[0:300]")
    assert [code for code, _ in items] == ["NKI122", "NKI303"]
    assert items[-1][1] == "x[0:300]"


def test_an_unknown_break_loses_the_loop() -> None:
    items = found("""
        n = 0
        while True:
            n += 1
            if third_party.flag:
                break
        nl.load(x[0:n])
        return x[0:300]
        """)
    assert items == [("NKI122", "third_party.flag"), ("NKI303", "x[0:300]")]


def test_asserts_behind_an_unknown_return_are_not_judged() -> None:
    assert found("if third_party.flag:\n    return x\nassert x.shape[0] == 1\nreturn nl.load(x[0:300])") == [
        ("NKI122", "third_party.flag"),
        ("NKI303", "x[0:300]"),
    ]


def test_an_unknown_call_may_change_what_it_gets() -> None:
    assert not found("""
        tiles = []
        third_party.fill(tiles)
        tiles[3]
        fresh = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
        third_party.fill(fresh)
        nl.store(x, fresh)
        for tile in tiles:
            pass
        """)[1:]  # the loop is said to be unknown


def test_a_function_under_an_unknown_decorator_is_unknown() -> None:
    assert not found("helper(x)[0:999]", "@third_party.wrap\ndef helper(t):\n    return t[0:500]\n")


def test_a_generator_is_unknown() -> None:
    codes = {
        code for code, _ in found("for t in parts(x):\n    nl.load(t[0:999])\nreturn x", "def parts(t):\n    yield t\n")
    }
    assert codes == {"NKI106", "NKI122"}


def test_names_of_an_unknown_star_import_are_unknown() -> None:
    assert not found("anything(x)", "from third_party import *\n")


def test_names_of_a_known_star_import_are_known() -> None:
    assert found("load(x[0:300])\nlaod(x)", "from nki.language import *\n") == [
        ("NKI303", "x[0:300]"),
        ("NKI102", "laod"),
    ]


# -- names, targets, programs -----------------------------------------------------------------------------------------


def test_undefined_names_suggest_near_misses() -> None:
    (item,) = [
        item for item in evaluation(kernel("tile = nl.load(x)\nnl.exp(tiel)")).diagnostics if item.code == "NKI102"
    ]
    assert item.message == "name 'tiel' is not defined"
    assert "tile" in item.help


@pytest.mark.parametrize(
    ("expression", "near"), [("nl.flaot32", "float32"), ("nisa.tensor_cpy", "tensor_copy"), ("nki.jti", "jit")]
)
def test_unknown_names_of_the_language_suggest_near_misses(expression: str, near: str) -> None:
    (item,) = evaluation(kernel(expression)).diagnostics
    assert item.code == "NKI006"
    assert near in item.help


def test_removed_names_say_what_to_write_instead() -> None:
    (item,) = evaluation(kernel("nl.arange(128)")).diagnostics
    assert item.code == "NKI603"


def test_a_fault_of_the_module_is_found_where_it_stands() -> None:
    assert found("return x", "KIND = nl.flaot32\n") == [("NKI006", "nl.flaot32")]


def test_host_code_of_the_module_is_not_judged() -> None:
    assert not found("return x", "1 / 0\nundefined\nassert False\nraise ValueError\n")


def test_the_target_decides() -> None:
    body = "t = nl.load(x)\nnisa.tensor_copy(dst=t, src=t, engine=nisa.engine.scalar)\nnl.store(x, t)"
    assert [item.code for item in evaluation(kernel(body), target="trn1").diagnostics] == ["NKI221"]
    assert not evaluation(kernel(body), target="trn2").diagnostics


def test_sizes_of_the_target_are_those_of_the_kernel_s_target() -> None:
    body = "if nisa.get_nc_version() >= nisa.nc_version.gen4:\n    nl.load(x[0:999])\nreturn x"
    assert not evaluation(kernel(body), target="trn2").diagnostics
    assert evaluation(kernel(body), target="trn3").diagnostics


def test_configurations_of_the_caller_become_the_module_s() -> None:
    module = """
        from dataclasses import dataclass
        from enum import Enum
        class Mode(Enum):
            WIDE = 1
        @dataclass
        class Config:
            rows: int
            mode: Mode = Mode.WIDE
        """
    text = kernel("return x[0 : config.rows] if config.mode == Mode.WIDE else x[0:999]", module, "x, config")
    names: dict[str, Any] = {"__name__": "caller"}
    exec(textwrap.dedent(module).replace("@dataclass", ""), names)
    config = names["Config"]()
    config.rows, config.mode = 300, names["Mode"].WIDE
    (item,) = evaluation(text, spec((128, 64), "float32"), config).diagnostics
    assert item.code == "NKI303"
    assert "300" in item.message


@pytest.mark.parametrize(
    ("args", "kwargs", "code"),
    [((), {"y": 1}, "NKI002"), ((1, 2), {}, "NKI002"), ((), {}, "NKI003"), ((1,), {"x": 1}, "NKI002")],
)
def test_arguments_that_do_not_fit_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any], code: str) -> None:
    made = evaluate(
        ModuleSource.parse(kernel("return x"), "k.py"), "k", Signature(args=args, kwargs=kwargs), arch="trn2"
    )
    assert [item.code for item in made.diagnostics] == [code]


def test_a_kernel_made_by_unknown_code_is_not_evaluated() -> None:
    text = f"{HEAD}k = third_party.make()\n"
    made = evaluate(ModuleSource.parse(text, "k.py"), "k", Signature(), arch="trn2")
    assert [item.code for item in made.diagnostics] == ["NKI122"]


def test_a_misspelt_field_is_told_its_spelling() -> None:
    module = "class Config(nl.NKIObject):\n    scale: float = 1.0\n    causal: bool = True\n"
    text = kernel("return x if Config().scal else x", module)
    (item,) = evaluation(text).diagnostics
    assert (item.code, item.help) == ("NKI007", "did you mean scale or causal?")


def test_what_a_stopped_kernel_has_not_written_yet_is_no_finding() -> None:
    body = """
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[:, 0:65], src=nl.load(x))
    return out
    """
    assert [code for code, _ in found(body)] == ["NKI303"]


def test_cores_of_which_one_is_stopped_are_not_told_what_the_other_has_not_written() -> None:
    body = """
    me = nl.program_id(0)
    board = nl.ndarray((2, 128, 64), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile[:, 0:32], src=tile)
    nisa.dma_copy(dst=board[me], src=tile)
    nisa.core_barrier(data=board, cores=(0, 1))
    nisa.dma_copy(dst=tile, src=board[1 - me])
    return board
    """
    items = query.check(
        source=kernel(body), path="k.py", function="k", args=[spec((128, 64), "float32")], grid=(2,), target="trn2"
    )
    assert [item.code for item in items] == ["NKI203"]


def test_types_tell_what_names_stand_for() -> None:
    text = kernel("K, M = x.shape\ntile = nl.load(x)\ntiles = [tile, tile]\nwidth: int = M // 2\nkind = nl.bfloat16")
    types = {item.name: item for item in evaluation(text).types.values()}
    assert types["tile"].text == "(128, 64) float32 in SBUF"
    assert types["tile"].partition_bytes == 256
    assert (types["x"].memory, types["x"].shape) == ("HBM", (128, 64))
    assert (types["K"].text, types["width"].text, types["kind"].text) == ("128", "32", "bfloat16")
    assert types["tiles"].text == "list of 2: (128, 64) float32 in SBUF"


def test_a_module_without_the_function_says_so() -> None:
    made = evaluate(ModuleSource.parse("x = 1", "k.py"), "k", Signature(), arch="trn2")
    assert [item.code for item in made.diagnostics] == ["NKI122"]


def test_steps_are_counted() -> None:
    assert evaluation(kernel("for i in range(100):\n    pass")).steps >= 200
