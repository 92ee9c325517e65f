"""Pages and reports write the same number in the same way: the page's own code, run by node."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from nki_lab.export import formatting

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "labextension"


def numbers(limit: float, *edges: float) -> Iterator[float]:
    """Numbers of all sizes below a limit, and those beside the edges of units and rules."""
    choice = random.Random(1)
    yield from (limit ** choice.random() for _ in range(400))
    yield from (edge * factor for edge in edges for factor in (0.994, 0.999, 1.001, 1.006))


def test_pages_write_numbers_as_reports_do(tmp_path: Path) -> None:
    if not (PAGE / "node_modules" / ".ready").exists():
        subprocess.run([ROOT / "scripts" / "node-modules"], check=True)
    given = {
        "times": [0, 1000, *map(int, numbers(1e15, *(size for size, _ in formatting.TIMES)))],
        "sizes": [0, 1023, 1024, 1 << 20, *map(int, numbers(2.0**50, *(1024.0**power for power in range(1, 5))))],
        "shares": [0, 1, *(1 / part for part in numbers(1e5)), *numbers(0.1, 0.0995, 0.0005)],
    }
    script, file = tmp_path / "formats.cjs", tmp_path / "given.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    banner = '--banner:js=const nodeRead = require("node:fs").readFileSync;'
    command = [PAGE / "node_modules/.bin/esbuild", PAGE / "tests/formats.ts", "--bundle", "--format=cjs"]
    subprocess.run([*command, "--platform=node", banner, f"--outfile={script}", "--log-level=error"], check=True)
    done = subprocess.run(["node", script, file], check=True, capture_output=True)
    written: dict[str, Callable[..., str]] = {
        "times": formatting.duration,
        "sizes": formatting.size,
        "shares": formatting.share,
    }
    for shown, (name, write) in zip(json.loads(done.stdout), written.items(), strict=True):
        assert dict(zip(given[name], shown, strict=True)) == {value: write(value) for value in given[name]}
