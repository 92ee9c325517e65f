"""What checking costs: many files at once, a file that grows, and how much of a kernel stays unknown."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import modules

from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, configuration_of

FILES = 100
GROWTH = (6_250, 12_500, 25_000, 50_000)
"""Lines of the generated files whose cost is compared."""


def files_seconds() -> float:
    """Seconds of `nki-lab check` on a folder of a hundred kernel files, the start of its processes included."""
    with tempfile.TemporaryDirectory() as folder:
        for i in range(FILES):
            Path(folder, f"kernel_{i}.py").write_text(modules.module(1, 60 + i), encoding="utf-8")
        command = [sys.executable, "-m", "nki_lab", "check", folder, "--format", "json"]
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONHASHSEED": "0"})
        return time.perf_counter() - start


def growth_milliseconds() -> Iterator[tuple[int, float]]:
    """Milliseconds for a thousand lines of a generated file, by its lines: alike where the cost is linear."""
    for lines in GROWTH:
        source = modules.module(max(1, lines // 360), lines)
        document, request = Document("generated.py"), EvaluationRequest(arch=arch_of("trn2"), steps=200_000_000)
        start = time.process_time()
        document.update(source)
        document.examine(request)
        yield source.count("\n"), (time.process_time() - start) / source.count("\n") * 1e6


def unknown_share(folder: Path) -> tuple[int, int]:
    """Calls of NKI in the kernels of a folder: how many could not be evaluated, and how many there are."""
    unknown, operations = set(), set()
    for file in sorted(folder.rglob("*.py")):
        document = Document(str(file))
        document.update(file.read_bytes())
        settings = configuration_of(file)
        request = EvaluationRequest(arch=arch_of("trn2"), given=settings.signatures(file), library=settings.library())
        seen = document.examine(request)
        unknown |= seen.unknown
        operations |= seen.operations
    return len(unknown), len(operations)
