"""Parameters of a sweep go where their names say, and what goes nowhere is refused."""

from __future__ import annotations

import linecache
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import nki_lab
from tests.sweeps import swept

ARGS = ("float32[S,512]",)


def swept_here(kernel: Any, parameters: Any, **keywords: Any) -> nki_lab.sweeps.Sweep:
    """Return the sweep of a kernel in threads of this process."""
    with ThreadPoolExecutor(2) as threads:
        return nki_lab.sweep(kernel, parameters, executor=threads, **keywords)


def test_a_global_a_keyword_a_size_and_the_target_are_swept() -> None:
    found = swept_here(
        swept.scaled, {"TILE": [128, 512], "factor": [2.0], "target": ["trn1", "trn2"], "S": [128, 256]}, args=ARGS
    )
    assert [tuple(item.parameters.values()) for item in found] == [
        (tile, 2.0, target, size) for tile in (128, 512) for target in ("trn1", "trn2") for size in (128, 256)
    ]
    assert all(item.ok for item in found)
    assert {item["shapes"] for item in found} == {"float32[128,512]", "float32[256,512]"}
    assert swept.TILE == 128
    for item in found:
        wanted = 512 // item["TILE"] * item["S"] // 128 * 3
        assert item["instructions"] == wanted
        assert item["latency_low_ns"] < item["latency_ns"] < item["latency_high_ns"]


def test_each_point_is_what_profile_gives() -> None:
    (item,) = swept_here(swept.scaled, {"S": 256, "target": "trn2"}, args=ARGS)
    alone = nki_lab.profile(swept.scaled, nki_lab.spec((256, 512), "float32"), target="trn2")
    assert item["latency_ns"] == alone.summary.makespan_ns
    assert item["sbuf_peak_bytes"] == alone.summary.sbuf_peak_bytes_per_partition


def test_a_variable_outside_of_a_kernel_is_swept() -> None:
    found = swept_here(swept.made(64), {"width": [64, 256]}, args=["float32[128,512]"])
    assert [item["sbuf_peak_bytes"] for item in found] == [256, 1024]


def test_an_option_and_a_dtype_are_swept() -> None:
    found = swept_here(
        swept.scaled,
        {"dtype": [np.float32, swept.nl.bfloat16], "bandwidth_sharing": [True, False]},
        args=lambda dtype: nki_lab.spec((128, 512), dtype),
    )
    assert [row["dtype"] for row in found.rows()] == ["float32", "float32", "bfloat16", "bfloat16"]
    assert [item["sbuf_peak_bytes"] for item in found][::2] == [512, 256]


def test_where_leaves_points_out() -> None:
    found = swept_here(
        swept.scaled, {"TILE": [128, 512], "S": [128, 256]}, args=ARGS, where=lambda TILE, S: TILE < 512 or S > 128
    )
    assert [(item["TILE"], item["S"]) for item in found] == [(128, 128), (128, 256), (512, 256)]


def test_the_outputs_are_compared_with_a_reference() -> None:
    found = swept_here(swept.scaled, {"factor": [2.0, 3.0], "S": [128]}, args=ARGS, reference=swept.doubled)
    assert [item["status"] for item in found] == ["ok", "wrong"]
    assert found[0]["max_error"] == 0
    assert found[1]["max_error"] > found[1]["allowed_error"] > 0
    assert "differ from the reference" in found[1]["message"]


def test_a_reference_takes_parameters_and_its_errors_are_rows() -> None:
    def reference(x: Any, factor: float) -> Any:
        return x * factor if factor < 3 else x.nothing

    found = swept_here(swept.scaled, {"factor": [2.0, 3.0]}, args=["float32[128,512]"], reference=reference)
    assert [item["status"] for item in found] == ["ok", "failed"]
    assert "AttributeError" in found[1]["message"]


def test_a_fault_is_a_row_with_code_message_and_line() -> None:
    found = swept_here(swept.scaled, {"TILE": [128, 1 << 20]}, args=["float32[128,1048576]"])
    assert [item["status"] for item in found] == ["ok", "failed"]
    row = found.failures[0].row
    assert row["code"] == "NKI313"
    assert "sbuf has" in row["message"]
    assert row["file"] == swept.__file__
    assert "nl.ndarray((128, width)" in linecache.getline(row["file"], row["line"])
    assert found.best()["TILE"] == 128


def test_a_point_that_the_compiler_would_reject_is_not_the_best() -> None:
    found = swept_here(swept.crowded, {"tiles": [2, 5], "target": ["trn2"]}, args=["float32[128,12288]"])
    assert [item["status"] for item in found] == ["ok", "rejected"]
    assert found[1]["latency_ns"] > 0
    assert found[1]["code"]
    assert found.best()["tiles"] == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"TILES": [1]}, "did you mean TILE"),
        ({"UNREAD": [1]}, "a global that the kernel does not read"),
        ({"latency_ns": [1]}, "a column of every sweep"),
        ({"TILE": []}, "has no values"),
        ({"TILE": [128, 256, 128]}, "TILE has the value 128 twice"),
        ({"two words": [1]}, "no name of a parameter"),
        ({"target": ["trn9"]}, "trn9"),
        ({"matmul_order": ["sideways"]}, "matmul_order is 'sideways'"),
        ({"TILE": range(100_001)}, "at most 100,000 points"),
        ([("TILE", 1)], "parameters is no mapping"),
    ],
    ids=str,
)
def test_what_goes_nowhere_is_refused(parameters: Any, message: str) -> None:
    with pytest.raises(nki_lab.NkiError, match=message):
        nki_lab.sweep(swept.scaled, parameters, args=["float32[128,512]"])


def test_a_parameter_of_the_kernel_called_target_is_refused() -> None:
    def aimed(x: Any, target: str) -> Any:
        return x

    with pytest.raises(nki_lab.NkiError, match="aimed has a parameter target too"):
        nki_lab.sweep(aimed, {"target": ["trn1"]}, args=["float32[128,512]"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["float32[S,T]"], "has the size T"),
        (["float32[S,0]"], "has the size 0"),
        ([f"float32[S,{'9' * 5000}]"], r"a size of 'float32.* has 5000 digits, at most 4300"),
        (["float33[S,512]"], "float33"),
        (lambda S: S.shape, "args raised AttributeError"),
        ([], "missing|x"),
    ],
    ids=["unknown-size", "zero", "long", "dtype", "raises", "none"],
)
def test_arguments_that_do_not_fit_are_refused(args: Any, message: str) -> None:
    with pytest.raises(nki_lab.NkiError, match=message):
        nki_lab.sweep(swept.scaled, {"S": [128]} if args else {"TILE": [128]}, args=args)


def test_an_executor_that_is_none_is_refused() -> None:
    for keywords in ({"executor": 4}, {"workers": 0}, {"executor": ThreadPoolExecutor(1), "workers": 1}):
        with pytest.raises(nki_lab.NkiError, match=r"executor|workers"):
            nki_lab.sweep(swept.scaled, {"TILE": 128}, args=["float32[128,512]"], **keywords)


def test_the_best_is_given_as_code_that_runs() -> None:
    found = swept_here(swept.scaled, {"TILE": [128, 512], "factor": [0.5], "target": ["trn1", "trn2"]},
                       args=["float32[256,512]"])  # fmt: skip
    best = found.best(target="trn1")
    scope = {**vars(swept), "nki_lab": nki_lab}
    assert best.code().splitlines()[0] == "TILE = 512"
    before = swept.TILE
    try:
        swept.TILE = 512
        exec(best.code(), scope)
    finally:
        swept.TILE = before
    assert scope["run"].summary.makespan_ns == best["latency_ns"]
    assert scope["run"].target == "trn1"


def test_the_front_has_what_nothing_else_beats() -> None:
    found = swept_here(swept.scaled, {"TILE": [128, 256, 512], "S": [128]}, args=ARGS)
    front = found.pareto()
    assert [item["TILE"] for item in front] == [512, 256, 128]
    for item in found:
        assert any(
            other["latency_ns"] <= item["latency_ns"] and other["sbuf_peak_bytes"] <= item["sbuf_peak_bytes"]
            for other in front
        )
    assert [item["S"] for item in found.best_by("S")] == [128]
    with pytest.raises(nki_lab.NkiError, match="did you mean latency_ns"):
        found.best("latency")


def test_the_table_has_a_column_for_each_parameter() -> None:
    found = swept_here(swept.scaled, {"TILE": [128, 1 << 20], "target": ["trn1"]}, args=["float32[128,1048576]"])
    table = found.to_table()
    assert table.column_names[:2] == ["TILE", "target"]
    assert table["TILE"].to_pylist() == [128, 1 << 20]
    assert table["latency_ns"].to_pylist()[1] is None
    assert found.rows() == table.to_pylist()
    assert "failed: NKI313 line " in found.text()
    assert "2 of 2 points: 1 ok, 1 failed" in found.text("summary")
