"""Each row between releases: the text before and after, both run where both do; the cases are in releases.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nki_lab import cli
from nki_lab.migrate import ROWS
from tests.migrate.migrating import NEW_HEAD, kernel

CASES = re.findall(
    r"^## (\d+) ([^\n]+?) \((\S+), (\w+)\): kernel\(([^\n]*)\), ([^\n]+)\n\n```python\n(.*?)```\n\n```python\n(.*?)```",
    Path(__file__).with_name("releases.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
RELEASE = {str(row.number): row.release for row in ROWS}


def arguments(shapes: str) -> list[str]:
    """Return the options that give a kernel its arguments."""
    found: list[str] = []
    for part in shapes.split("; "):
        name, _, text = part.partition("=")
        kind, *sizes = text.split()
        found += ["--arg", f"{name}={kind}[{','.join(sizes)}]"]
    return found


def run(file: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what the command reports of one file."""
    cli.main(["migrate", str(file), "--format", "json", *options])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found[0]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_a_row_is_rewritten_and_does_the_same(
    case: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row, _, since, kind, signature, shapes, before, after = case
    file = tmp_path / "kernels.py"
    file.write_text(NEW_HEAD + kernel(before, signature))
    given = [*arguments(shapes), "--from", since]
    done = run(file, *given, "--verify", "--write", capsys=capsys)
    assert file.read_text() == NEW_HEAD + kernel(after, signature)
    assert not done["findings"] and (kind == "load" or not done["errors"])
    changed = before != after
    assert done["changed"] is changed and (done["rows"].get(row, 0) > 0) is changed
    (verdict,) = done["verified"]
    if kind == "equal":
        assert verdict["outcome"] == "equal", verdict
    else:
        assert "before it" in verdict["text"]
    again = run(file, *given, "--verify", capsys=capsys)
    assert not again["changed"] and not again["rows"]
    if kind != "load":
        assert again["verified"][0]["outcome"] == "equal", again["verified"]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_what_an_earlier_release_changed_is_left_alone(
    case: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row, _, _, _, signature, shapes, before, _ = case
    file = tmp_path / "kernels.py"
    file.write_text(NEW_HEAD + kernel(before, signature))
    later = [name for name in ("0.2", "0.3", "0.4", "0.5") if name >= RELEASE[row]]
    for since in later:
        assert row not in run(file, *arguments(shapes), "--from", since, capsys=capsys)["rows"]


FINDINGS = {
    "51": """
        out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x, dge_mode=nisa.dge_mode.hwdge)
        return out
    """,
    "53": """
        out = nl.ndarray((128, 256, 2), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_transpose(dst=out, src=x.reshape((2, 1, 256, 128)), axes=(3, 1, 2, 0))
        return out
    """,
    "55": "return nl.load(x).reshape((128, 500))",
    "44": """
        total = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=nl.load(x).reshape((128, 64, 8)), axis=1)
        return total
    """,
    "43": """
        tile = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=2.5)
        return tile
    """,
    "22": """
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x, dst_rmw_op=nl.add, dge_mode=nisa.dge_mode.none)
        return out
    """,
    "56": """
        tile = nl.load(x)
        for i in nl.dynamic_range(4):
            last = tile.ap([[512, 128], [1, 1]], scalar_offset=i, indirect_dim=1)
        return last
    """,
    "57": """
        tile, more = nl.load(x), nisa.register_alloc(1)
        while more:
            nisa.register_move(more, nisa.register_alloc(0))
            break
        return tile
    """,
}
LOOPS = [
    ("for i in nl.dynamic_range(4):\n    tile = nl.add(tile, 1.0)", "tile keeps a value"),
    ("for i in nl.dynamic_range(4):\n    tile += 1.0", "tile keeps a value"),
    ("for i in nl.dynamic_range(4):\n    if i: continue", "continue in line"),
    ("for i in nl.dynamic_range(4):\n    return tile", "return in line"),
    ("for i in nl.dynamic_range(4):\n    pass\nelse:\n    pass", "else"),
    ("for i in nl.dynamic_range(4, 0, -1):\n    pass", "step"),
    ("for i in nl.dynamic_range(*tile.shape):\n    pass", "bounds"),
    ("for i in (nl.dynamic_range(4)):\n    pass", "parentheses"),
    ("with nl.no_reorder():\n    for i in nl.dynamic_range(4):\n        pass", "no_reorder"),
    ("for i in nl.dynamic_range(4):\n    with nl.no_reorder():\n        pass", "no_reorder"),
]


@pytest.mark.parametrize("row", FINDINGS)
def test_what_has_no_safe_rewrite_is_a_finding(row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    text = NEW_HEAD + kernel(FINDINGS[row])
    file.write_text(text)
    done = run(file, "--arg", "x=float32[128,512]", "--from", "0.2", "--write", capsys=capsys)
    assert file.read_text() == text
    found = [item for item in done["findings"] if f"(row {row})" in item["message"]]
    assert found and {item["code"] for item in done["findings"]} == {"NKI610"} and found[0]["help"]


@pytest.mark.parametrize(("loop", "reason"), LOOPS)
def test_loops_that_are_no_functions_are_findings(
    loop: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kernels.py"
    text = NEW_HEAD + kernel(f"tile = nl.load(x)\n{loop}\nreturn tile")
    file.write_text(text)
    done = run(file, "--from", "0.5", "--write", capsys=capsys)
    assert file.read_text() == text
    assert [reason in item["message"] for item in done["findings"] if "(row 56)" in item["message"]] == [True]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ncc.collective_permute_implicit([[a]], [[b]], g, num_channels=2)",
         "ncc.collective_permute_implicit([[a]], [[b]], g, channel_ids=[0, 1])"),
        ("ncc.collective_permute_implicit([[a]], [[b]], g, num_channels=n)",
         "ncc.collective_permute_implicit([[a]], [[b]], g, channel_ids=list(range(n)))"),
        ("ncc.collective_permute_implicit_current_processing_rank_id(iteration_id=0, num_channels=n, replica_group=g)",
         "ncc.collective_permute_implicit_current_processing_rank_id(iteration_id=0, replica_group=g)"),
        ("ncc.collective_permute_implicit_current_processing_rank_id(num_channels=n, iteration_id=0)",
         "ncc.collective_permute_implicit_current_processing_rank_id(iteration_id=0)"),
    ],
)  # fmt: skip
def test_channels_have_numbers(before: str, after: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    head = "import nki.collectives as ncc\n\n\ndef permute(a, b, g, n):\n    return "
    file.write_text(f"{head}{before}\n")
    run(file, "--from", "0.2", "--write", capsys=capsys)
    assert file.read_text() == f"{head}{after}\n"


def test_arguments_of_the_decorator_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    body = "def kernel(x):\n    return x\n"
    file.write_text(f"import nki\n\n\n@nki.jit(mode='torchxla')\n{body}")
    done = run(file, "--from", "0.2", "--write", capsys=capsys)
    assert file.read_text() == f"import nki\n\n\n@nki.jit()\n{body}" and done["rows"] == {"2": 1}


def test_a_file_of_beta_1_is_not_of_a_later_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n")
    assert not run(file, "--from", "0.3", capsys=capsys)["changed"]
