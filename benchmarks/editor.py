"""Answers of the language server while an evaluation runs: what somebody who types gets, and what an editor draws.

    python -m benchmarks.editor FILE [EDITS]

A real editor session over standard input and output, in two parts. In the first, statements are typed into the module
at random places, with a completion and a signature after each character and hovers between. In the second, after each
of EDITS random changes of one line (40), which leave Python, everything is asked for once that an editor draws.
Another text keeps the evaluating process busy without end; for the second part the module has been examined before.

Beside the times stand references of the same run, which grow with the load of the machine: `ast.parse` of the module, a
turn of an empty loop, and a round trip, which is a request that the server does not know. `cost` is the processor's
time that the server, without the evaluating process, spent for each answer, where the system tells it.
"""

from __future__ import annotations

import ast
import os
import statistics
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.lsp.client import connect

BUDGET_MS: Final = 50.0
"""For 95 of 100 answers, on two idle processors."""
IDLE_TURN_NS: Final = 21.0
"""A turn of an empty Python loop on the idle machine that the budget was set on."""
STATEMENT: Final = "nisa.nc_matmul(dst=acc, stationary=nl.add(a, b), moving="
METHODS: Final = ("completion", "signatureHelp", "hover")
CAPABILITIES: Final[dict[str, Any]] = {
    "workspace": {
        "inlayHint": {"refreshSupport": True},
        "semanticTokens": {"refreshSupport": True},
        "codeLens": {"refreshSupport": True},
    },
    "textDocument": {
        "publishDiagnostics": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "completion": {
            "completionItem": {"snippetSupport": True, "labelDetailsSupport": True, "insertReplaceSupport": True},
            "completionList": {"itemDefaults": ["editRange"]},
        },
    },
}
DRAWN: Final = (
    "hover", "documentHighlight", "definition", "selectionRange", "semanticTokens/full/delta", "semanticTokens/full",
    "inlayHint", "foldingRange", "documentSymbol", "codeLens", "completion", "signatureHelp",
)  # fmt: skip
"""The requests of the second part, in the order in which they come after a change."""
ROUND_TRIP: Final = "$/roundTrip"
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


class Answers(NamedTuple):
    """Seconds until each answer after a change, and the processor's seconds that the server spent on it."""

    wall: list[float]
    cpu: list[float]


def drawn_seconds(source: str, uri: str, edits: int = 40, seed: int = 0) -> dict[str, Answers]:
    """Times of the answers to all that an editor draws after random changes of one line, by request."""
    lines, random = source.split("\n"), Random(seed)
    client = connect()
    client.initialize(CAPABILITIES, steps=500_000_000)
    client.open(uri, source)
    client.published(uri)
    client.open("file:///endless.py", SLOW)
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": len(lines) + edits, "character": 0}}
    _ask(client, "semanticTokens/full", uri, 0, 0)
    found = {method: Answers([], []) for method in (ROUND_TRIP, *DRAWN)}
    tokens = ""
    for _ in range(edits):
        at = _changed(client, uri, lines, random)
        column = len(lines[at]) - len(lines[at].lstrip()) + 1
        for method, answers in found.items():
            more = {"range": whole, "previousResultId": tokens, "positions": [{"line": at, "character": column}]}
            start, spent = time.perf_counter(), _cpu(client.process.pid)
            if method == ROUND_TRIP:
                client.answer(client.ask(ROUND_TRIP))
            else:
                given = {"textDocument": {"uri": uri}, "position": {"line": at, "character": column}} | more
                result = client.request(f"textDocument/{method}", given)
                tokens = result.get("resultId", tokens) if isinstance(result, dict) else tokens
            answers.wall.append(time.perf_counter() - start)
            answers.cpu.append(_cpu(client.process.pid) - spent)
    client.process.kill()  # it evaluates for long
    client.close()
    return found


def _changed(client: Any, uri: str, lines: list[str], random: Random) -> int:
    """Change a line at random, so that the text stays Python; gives its number."""
    while True:
        at = random.choice([i for i, line in enumerate(lines[1:-1], 1) if line[:4] == "    " and line[4:].strip()])
        text = lines[at]
        indent = " " * (len(text) - len(text.lstrip()))
        statement = f"{indent}number = {random.randrange(100)}"
        new = random.choice(([statement, text], [], [statement], [f"{text}  # {random.random()}"]))
        changed = [*lines[:at], *new, *lines[at + 1 :]]
        try:
            ast.parse("\n".join(changed))
        except SyntaxError:
            continue
        client.change(uri, (at, 0, at + 1, 0, "".join(f"{line}\n" for line in new)))
        lines[:] = changed
        return at


def _cpu(process: int) -> float:
    """Return the seconds of the processor that a process has used; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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


def main(file: str, edits: int = 40) -> int:
    """Print the answers' times, as quotients too."""
    path = Path(file).resolve()
    source = path.read_text(encoding="utf-8")
    before = references(source)
    times = answer_seconds(source, path.as_uri())
    middle = references(source)
    drawn = drawn_seconds(source, path.as_uri(), edits)
    after = references(source)
    parse, turn = ((a + b + c) / 3 for a, b, c in zip(before, middle, after, strict=True))
    budget = BUDGET_MS * max(1.0, turn / IDLE_TURN_NS)
    print(f"{source.count(chr(10))} lines, ast.parse {parse:.0f} ms, empty loop {turn:.0f} ns a turn, "
          f"budget {budget:.0f} ms\n\nwhile statements are typed")  # fmt: skip
    for method, values in times.items():
        print(_row(method, values, parse))
    print(f"\nafter each of {edits} changes of a line")
    for method, answers in drawn.items():
        print(_row(method, answers.wall, parse), f"  cost {statistics.mean(answers.cpu) * 1e3:6.1f} ms")
    return 0


def _row(method: str, seconds: list[float], parse: float) -> str:
    values = [value * 1e3 for value in seconds]
    return (f"{method:26s} {len(values):4d} answers, median {statistics.median(values):6.1f} ms, "
            f"p95 {p95(values):6.1f} ms = {p95(values) / parse:5.2f} ast.parse")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
