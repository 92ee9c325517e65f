"""What checking costs: many files at once, a file that grows, and how much of a kernel stays unknown."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import modules

from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, configuration_of
from nki_lab.query.call_sites import call_sites, counted

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


def migration_seconds(module: str) -> tuple[float, int]:
    """Seconds of the processor for the migration of a thousand lines of a Beta 1 module, and its lines."""
    from nki_lab.cli.migrating import Report, migrated_file

    data = Path(module).read_bytes()
    report = Report(module, before=data, after=data)
    start = time.process_time()
    migrated_file(report, configuration_of(Path(module)), None, {}, release="beta1", verify=False)
    lines = data.count(b"\n")
    return (time.process_time() - start) / max(1, lines) * 1e3, lines


def growth_milliseconds() -> Iterator[tuple[int, float]]:
    """Milliseconds for a thousand lines of a generated file, by its lines: alike where the cost is linear."""
    for lines in GROWTH:
        source = modules.module(max(1, lines // 360), lines)
        document, request = Document("generated.py"), EvaluationRequest(arch=arch_of("trn2"), steps=200_000_000)
        start = time.process_time()
        document.update(source)
        document.examine(request)
        yield source.count("\n"), (time.process_time() - start) / source.count("\n") * 1e6


class Edit(NamedTuple):
    """What one edit of a module cost, in seconds: its check, by the clock and of the processor, and `ast.parse`."""

    wall: float
    cpu: float
    parse: float


def edits(module: str, count: int = 40, seed: int = 0) -> Iterator[Edit]:
    """Yield the costs of edits of single functions of a real module, as an editor that checks each of them has them.

    `module` is a file, or `file::pyproject.toml` where the shapes of its kernels stand in the table
    `[tool.nki-lab.shapes]` of a project that is not the file's own. Each edit puts a statement before one of a random
    function, into the unchanged text; functions are drawn by their lines.
    """
    name, _, project = module.partition("::")
    file, random = Path(name).resolve(), Random(seed)
    settings, own = configuration_of(Path(project) if project else file), configuration_of(file)
    lines = file.read_text(encoding="utf-8").split("\n")
    request = EvaluationRequest(arch=arch_of("trn2"), given=settings.signatures(file), library=own.library())
    document = Document(str(file))
    document.update("\n".join(lines))
    document.examine(request)
    functions = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.FunctionDef)]
    weights = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]
    for number in range(count):
        (node,) = random.choices(functions, weights)
        places = [item for part in node.body[1:] or node.body for item in ast.walk(part) if isinstance(item, ast.stmt)]
        place = random.choice([item for item in places if lines[item.lineno - 1][: item.col_offset].isspace()])
        at = min([place.lineno, *(item.lineno for item in getattr(place, "decorator_list", ()))]) - 1
        text = "\n".join([*lines[:at], f"{' ' * place.col_offset}edited = {number}", *lines[at:]])
        start, busy = time.perf_counter(), time.process_time()
        try:
            ast.parse(text)
        except SyntaxError:  # the place was an `elif`
            continue
        parse = time.process_time() - busy
        start, busy = time.perf_counter(), time.process_time()
        document.update(text)
        document.examine(request)
        yield Edit(time.perf_counter() - start, time.process_time() - busy, parse)


def unknown_share(folder: Path) -> tuple[int, int]:
    """Calls of NKI in the kernels of a folder: how many no evaluation came to, as editors show it, and how many there
    are.
    """
    unknown = operations = 0
    for file in sorted(folder.rglob("*.py")):
        document = Document(str(file))
        document.update(file.read_bytes())
        settings = configuration_of(file)
        request = EvaluationRequest(arch=arch_of("trn2"), given=settings.signatures(file), library=settings.library())
        reach = document.examine(request).reach
        assert document.facts is not None
        number = counted(call_sites(document.facts, reach))
        operations += sum(number.values())
        unknown += number["by name"] + number["skipped"]
    return unknown, operations
