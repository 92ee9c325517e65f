"""Pages and reports write the same number in the same way: the page's own code, run by node."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from nki_lab import quantities

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "labextension"


def numbers(limit: float, *edges: float) -> Iterator[float]:
    """Numbers of all sizes below a limit, and those beside the edges of units and rules."""
    choice = random.Random(1)
    yield from (limit ** choice.random() for _ in range(400))
    yield from (edge * factor for edge in edges for factor in (0.994, 0.999, 1.001, 1.006))
    yield from (limit / 2**power for power in range(50))


def halves(*units: float) -> Iterator[float]:
    """Numbers in the middle between two that are written."""
    yield from (unit * (number + 0.5) for unit in units for number in (0, 1, 2, 100, 112, 137, 999))


def test_pages_write_numbers_as_reports_do(tmp_path: Path) -> None:
    if not (PAGE / "node_modules" / ".ready").exists():
        subprocess.run([ROOT / "scripts" / "node-modules"], check=True)
    given = {
        "times": [
            0,
            1000,
            *map(int, numbers(1e15, *(size for size, _ in quantities.TIMES))),
            *map(int, halves(1000, *(size // 100 for size, _ in quantities.TIMES))),
        ],
        "sizes": [
            0,
            1023,
            1024,
            1 << 20,
            *map(int, numbers(2.0**50, *(1024.0**power for power in range(1, 5)))),
            *(round(1024**power * (1 + part / 8)) for power in range(1, 5) for part in range(8)),
        ],
        "shares": [
            0,
            1,
            *(1 / part for part in numbers(1e5)),
            *numbers(0.1, 0.0995, 0.0005),
            *halves(1 / 1024, 1 / 64),
        ],
        "significant": [0, *numbers(1e6, 1, 10, 100, 1000), *(number / 8 for number in halves(1, 10, 100)), 0.00002],
    }
    script, file = tmp_path / "formats.cjs", tmp_path / "given.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    banner = '--banner:js=const nodeRead = require("node:fs").readFileSync;'
    command = [PAGE / "node_modules/.bin/esbuild", PAGE / "tests/formats.ts", "--bundle", "--format=cjs"]
    subprocess.run([*command, "--platform=node", banner, f"--outfile={script}", "--log-level=error"], check=True)
    done = subprocess.run(["node", script, file], check=True, capture_output=True)
    written: dict[str, Callable[..., str]] = {
        "times": quantities.duration,
        "sizes": quantities.size,
        "shares": quantities.share,
        "significant": quantities.significant,
    }
    for shown, (name, write) in zip(json.loads(done.stdout), written.items(), strict=True):
        assert dict(zip(given[name], shown, strict=True)) == {value: write(value) for value in given[name]}
