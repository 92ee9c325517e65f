"""A name that stands for tensors of several shapes is not described by the first of them alone."""

from __future__ import annotations

import pytest

from nki_lab import query
from nki_lab.isa.arch import arch_of
from nki_lab.query.hints import variable_hints

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\nimport numpy as np\n\n"
HELPER = """def cut(t, n):
    part = t[:, 0:n]
    return part


"""
LOOP = """@nki.jit
def k(x: nt.tensor[128, 512]):
    tile = nl.load(x)
    whole = cut(tile, 512)
    half = cut(tile, 256)
    for i in range({trips}):
        step = tile[:, i * 16 : (i + 1) * 16 + i]
    nl.store(x, tile)
    return x
"""
CALLS = """@nki.jit
def k(x):
    tile = nl.load(x)
    nl.store(x, tile)
    return x


k(np.zeros((128, 512), np.float32))
k(np.zeros((64, 512), np.float32))
k(np.zeros((128, 512), np.float16))
"""


def known(text: str) -> query.Examination:
    document = query.Document("/project/k.py")
    document.update(text)
    return document.examine(query.EvaluationRequest(arch=arch_of("trn2")))


def labels(text: str) -> dict[str, str]:
    """Return the shapes beside the names of a module."""
    lines = text.split("\n")
    hints = variable_hints(lines, known(text), shapes=True, sizes=False, trips=False)
    return {lines[item.line - 1][: item.character].split()[-1]: item.text for item in hints}


def hovered(text: str, name: str) -> str:
    """Return the hover over the first place of a name."""
    lines = text.split("\n")
    number = next(number for number, line in enumerate(lines) if line.strip().startswith(name))
    return query.hover(text, number + 1, lines[number].index(name) + 1, target="trn2") or ""


def test_a_helper_that_is_called_with_several_sizes_has_all_of_them() -> None:
    text = HEAD + HELPER + LOOP.format(trips=3)
    assert labels(text)["part"] == ": 128×256–512 float32 SBUF"
    shown = hovered(text, "part")
    assert shown == "`part`: (128, 512) float32 in SBUF, 2048 bytes per partition; at other times (128, 256)"
    assert labels(text)["half"] == ": 128×256 float32 SBUF"


@pytest.mark.parametrize(("trips", "others"), [(3, "(128, 17) or (128, 18)"), (8, "(128, 20) or others")])
def test_a_tile_that_grows_in_a_loop_has_its_later_shapes(trips: int, others: str) -> None:
    text = HEAD + HELPER + LOOP.format(trips=trips)
    assert hovered(text, "step").startswith("`step`: (128, 16) float32 in SBUF")
    assert hovered(text, "step").endswith(others)


def test_a_kernel_that_is_called_with_several_shapes_and_dtypes_has_all_of_them() -> None:
    text = HEAD + CALLS
    assert labels(text)["tile"] == ": 128×512 or others, float32 SBUF"
    assert hovered(text, "tile").endswith("; at other times (64, 512) or (128, 512) float16 in SBUF")


def test_an_expression_of_several_shapes_has_all_of_them() -> None:
    text = HEAD + HELPER + LOOP.format(trips=2)
    shown = query.hover(text, text[: text.index("tile[:")].count("\n") + 1, 16, target="trn2") or ""
    assert "`tile`: (128, 512) float32 in SBUF, 2048 bytes per partition\n" in shown
    assert shown.endswith("(128, 16) float32 in SBUF, 64 bytes per partition; at other times (128, 17)")


def test_a_size_that_changes_in_a_loop_is_not_known_of_a_kernel_without_shapes() -> None:
    text = HEAD + (
        "@nki.jit\ndef k(x):\n    for i in range(3):\n"
        "        t = nl.ndarray((128, 16 + i), dtype=nl.float32, buffer=nl.sbuf)\n"
        "        u = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)\n"
        "        nisa.memset(dst=t, value=0.0)\n    return x\n"
    )
    found = labels(text)
    assert (found["t"], found["u"]) == (": 128×? float32 SBUF", ": 128×16 float32 SBUF")


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("i * 64", "0 at first, from 0 to 448 in all"),
        ("448 - i * 64", "448 at first, from 0 to 448 in all"),
        ("i / 4", "0.0 at first, from 0.0 to 1.75 in all"),
        ("8", "8"),
        ("i > 0", "False"),
    ],
)
def test_a_number_that_changes_in_a_loop_has_its_range(expression: str, shown: str) -> None:
    body = f"    tile = nl.load(x)\n    for i in range(8):\n        start = {expression}\n    return x\n"
    text = f"{HEAD}@nki.jit\ndef k(x: nt.tensor[128, 512]):\n{body}"
    assert hovered(text, "start") == f"`start`: {shown}"
