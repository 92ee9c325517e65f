"""Types in kernels at random, and holds what is found in a text that is read again against a new reading of it.

    python tests/fuzz/typing_again.py --texts 10000 --seed 7

Exit status 1 where a text has other findings than a new reading of it; `typing_again.txt` has the seeds that once had.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nki_lab.query import Document

KERNELS = Path(__file__).parents[1] / "kernels"
SEEDS = Path(__file__).with_suffix(".txt")
EDITS = 6
PIECES = (
    "(", ")", "[", "]", "{", "}", "'", '"', '"""', "'''", "\n", "\\\n", "    ", ":", ", ", " = ", "@nki.jit\n", "é😀",
    "#", "\\", "lambda: ", "def f(x):\n", "x = (\n", "y = [1,\n", ")\n", "]\n", "'''\n", "return\n", "else:\n", "f'{",
    "}'", "\t", ";", "async ", "global x\n", "nl.",
)  # fmt: skip


@cache
def texts() -> tuple[str, ...]:
    """The kernels that are typed in."""
    return tuple(file.read_text(encoding="utf-8") for file in sorted(KERNELS.glob("*.py")))


def edited(draw: random.Random, text: str) -> str:
    """A text after one edit: something typed, deleted or pasted."""
    at = draw.randrange(len(text) + 1)
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    match draw.randrange(7):
        case 0 | 1:
            return text[:at] + draw.choice(PIECES) + text[at:]
        case 2:
            return text[:at] + text[at + draw.choice((1, 1, 2, 8, 40)) :]
        case 3:
            return text[:start] + draw.choice(PIECES) + text[start:]
        case 4:
            return text[:start] + text[end + 1 :]
        case 5:
            return text[:end] + draw.choice(PIECES) + text[end:]
    lines = text.splitlines(keepends=True) or [""]
    first = draw.randrange(len(lines))
    return text[:start] + "".join(lines[first : first + draw.randrange(6)]) + text[start:]


def difference(seed: int) -> str:
    """How the findings of a text that was typed differ from those of a new reading; empty where they do not."""
    draw = random.Random(seed)
    text = draw.choice(texts())
    document, earlier = Document("k.py"), []
    document.update(text)
    for number in range(EDITS):
        if earlier and draw.random() < 0.3:
            text = earlier.pop()
        else:
            earlier.append(text)
            text = edited(draw, text)
        found, fresh = document.update(text), Document("k.py").update(text)
        if found != fresh:
            more, less = ([f"{item.code} {item.line}:{item.column}" for item in one if item not in other]
                          for one, other in ((found, fresh), (fresh, found)))  # fmt: skip
            return f"seed {seed}, edit {number}: {more} in place of {less}\n{text}"
    return ""


def regressions() -> list[tuple[int, str]]:
    """The seeds that once made a difference, with its cause."""
    lines = SEEDS.read_text(encoding="utf-8").splitlines()
    return [(int(line.split("#")[0]), line.partition("#")[2].strip()) for line in lines if line[:1].isdigit()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--texts", type=int, default=10_000, help="texts to type in")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    given = parser.parse_args(arguments)
    failures, start = 0, time.perf_counter()
    for seed in range(given.seed, given.seed + given.texts):
        if found := difference(seed):
            failures += 1
            print(found, flush=True)
            if failures >= given.failures:
                break
    print(f"{given.texts} texts, {failures} differ; {time.perf_counter() - start:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
