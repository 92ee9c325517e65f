"""What the documents and the examples show of JAX, runs. These tests need `nki-lab[jax]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.pages.blocks import blocks, failures, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_blocks_that_need_jax_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "howto" / "jax.md").read_text(encoding="utf-8")
    assert sum(block.options.get("needs") == "jax" for block in blocks(text)) >= 3
    assert not failures(text, tmp_path, needs="jax")


def test_the_example_learns_as_with_the_plain_operation(tmp_path: Path) -> None:
    done = run([str(ROOT / "examples" / "frameworks" / "jax_training.py")], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "largest difference" in done.stdout
