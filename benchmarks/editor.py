"""Answers of the language server while somebody types and an evaluation runs: completion, signatures, hovers.

    python -m benchmarks.editor FILE

A real editor session over standard input and output types statements into a module, and asks after each character.
Beside the times stand `ast.parse` of the module and a turn of an empty loop, taken in the same run: both grow with the
load of the machine.
"""

from __future__ import annotations

import ast
import statistics
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.lsp.client import connect

BUDGET_MS: Final = 50.0
"""For 95 of 100 answers, on two idle processors."""
IDLE_TURN_NS: Final = 21.0
"""A turn of an empty Python loop on the idle machine that the budget was set on."""
STATEMENT: Final = "nisa.nc_matmul(dst=acc, stationary=nl.add(a, b), moving="
METHODS: Final = ("completion", "signatureHelp", "hover")
CAPABILITIES: Final[dict[str, Any]] = {
    "textDocument": {
        "publishDiagnostics": {},
        "completion": {
            "completionItem": {"snippetSupport": True, "labelDetailsSupport": True, "insertReplaceSupport": True},
            "completionList": {"itemDefaults": ["editRange"]},
        },
    }
}
SLOW: Final = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def endless(x: nki.typing.tensor[128, 64]):
    tile = nl.load(x)
    for i in range(10_000):
        for j in range(10_000):
            nisa.memset(dst=tile, value=0.0)
    return x
"""


def answer_seconds(source: str, uri: str, statements: int = 10, seed: int = 0) -> dict[str, list[float]]:
    """Seconds until each answer, by request, while statements are typed into a module at random places."""
    lines, random = source.split("\n"), Random(seed)
    places = [i for i, line in enumerate(lines) if line.lstrip().startswith(("nisa.", "nl.")) and "(" in line]
    client = connect()
    client.initialize(CAPABILITIES, steps=500_000_000)
    client.open(uri, source)
    client.open("file:///endless.py", SLOW)
    _ask(client, "hover", uri, 0, 0)
    _ask(client, "completion", uri, 0, 0)
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(statements):
        at = random.choice(places)
        indent = len(lines[at]) - len(lines[at].lstrip())
        client.change(uri, (at, 0, at, 0, " " * indent + "\n"))
        for column, character in enumerate(STATEMENT, start=indent):
            client.change(uri, (at, column, at, column, character))
            for method in METHODS if column % 8 == 0 else METHODS[:2]:
                found[method].append(_ask(client, method, uri, at, column + 1))
        client.change(uri, (at, 0, at + 1, 0, ""))
    client.process.kill()  # it evaluates for long
    client.close()
    return found


def _ask(client: Any, method: str, uri: str, line: int, character: int) -> float:
    where = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
    start = time.perf_counter()
    client.request(f"textDocument/{method}", where)
    return time.perf_counter() - start


def references(source: str) -> tuple[float, float]:
    """Milliseconds of `ast.parse`, and nanoseconds of a turn of an empty loop."""
    parse, turn = [], []
    for _ in range(5):
        start = time.perf_counter()
        ast.parse(source)
        middle = time.perf_counter()
        for _ in range(1_000_000):
            pass
        parse.append((middle - start) * 1e3)
        turn.append((time.perf_counter() - middle) * 1e3)
    return statistics.median(parse), statistics.median(turn)


def p95(values: list[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    return sorted(values)[int(len(values) * 0.95)]


def main(file: str) -> int:
    """Print the answers' times, as quotients too."""
    path = Path(file).resolve()
    source = path.read_text(encoding="utf-8")
    before = references(source)
    times = answer_seconds(source, path.as_uri())
    after = references(source)
    parse, turn = ((a + b) / 2 for a, b in zip(before, after, strict=True))
    print(f"{source.count(chr(10))} lines, ast.parse {parse:.0f} ms, empty loop {turn:.0f} ns a turn")
    for method, values in times.items():
        milliseconds = [value * 1e3 for value in values]
        print(f"{method:14s} {len(values):4d} answers, median {statistics.median(milliseconds):6.1f} ms, "
              f"p95 {p95(milliseconds):6.1f} ms = {p95(milliseconds) / parse:.2f} ast.parse, "
              f"budget {BUDGET_MS * max(1.0, turn / IDLE_TURN_NS):.0f} ms")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
