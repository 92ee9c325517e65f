"""No code decides by the name of an instruction: it asks for what the declaration says of its part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import nki_lab.isa.ops  # noqa: F401 - fills the table
from nki_lab.isa.spec import TABLE

NAMES = frozenset(TABLE)
RUNTIME = "nki_lab/kernel_runtime"
# Names that stand for something else, by file and name. What composites issue, `isa("tensor_copy")(...)` or
# TABLE["dma_copy"], is no decision.
ALLOWED: dict[tuple[str, str], str] = {
    (f"{RUNTIME}/language/operations.py", "reciprocal"): "the function of nki.language",
    (f"{RUNTIME}/issue/legality.py", "activation"): "a kind of attribute",
    ("nki_lab/stubs/annotations.py", "activation"): "a kind of attribute",
    ("nki_lab/testing.py", "quantize_mx"): "a function of this module",
}


def deciding(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of each string that is compared with, a key, or a member of a collection, and names an instruction.

    A text that is mostly such names is a collection, too: somebody splits it.
    """
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        match node:
            case ast.Compare(left=left, comparators=others):
                parts = [left, *others]
            case ast.Dict(keys=keys):
                parts = list(keys)
            case ast.Set(elts=members) | ast.Tuple(elts=members) | ast.List(elts=members):
                parts = list(members)
            case ast.MatchValue(value=value):
                parts = [value]
            case ast.Constant(value=str(text)):
                words = text.split()
                named = [word for word in words if word in NAMES]
                if len(words) > 1 and 2 * len(named) > len(words):
                    yield from ((node.lineno, word) for word in named)
        for part in parts:
            if isinstance(part, ast.Constant) and part.value in NAMES:
                yield part.lineno, part.value


def decisions(root: Path) -> Iterator[tuple[str, int, str]]:
    """(file, line, name) in the package outside of the declarations."""
    for file in sorted((root / "nki_lab").rglob("*.py")):
        path = file.relative_to(root).as_posix()
        if not path.startswith("nki_lab/isa/ops/"):
            for line, name in deciding(ast.parse(file.read_text(encoding="utf-8"))):
                yield path, line, name


def test_no_name_of_an_instruction_decides_what_code_does(root: Path) -> None:
    wrong = [(path, line, name) for path, line, name in decisions(root) if (path, name) not in ALLOWED]
    assert not wrong, "ask for a property of the declaration (isa/spec.py) instead"


def test_every_permission_is_used(root: Path) -> None:
    assert ALLOWED.keys() <= {(path, name) for path, _, name in decisions(root)}


@pytest.mark.parametrize(
    "text",
    [
        "instruction.name == 'nc_matmul'",
        "'nc_matmul' != name",
        "name in ('nc_matmul', 'other')",
        "name in {'nc_matmul'}",
        "COSTS = {'nc_matmul': 1}",
        "NAMES = ['nc_matmul']",
        "NAMES = 'nc_matmul tensor_copy other'.split()",
        "match name:\n    case 'other' | 'nc_matmul':\n        pass",
    ],
)
def test_a_decision_by_name_is_found(text: str) -> None:
    assert "nc_matmul" in {name for _, name in deciding(ast.parse(text))}


@pytest.mark.parametrize(
    "text",
    [
        "isa('nc_matmul')(dst, a, b)",
        "record(TABLE['nc_matmul'])",
        "'use nc_matmul or tensor_copy here'",
        "{'a': 'nc_matmul'}",
    ],
)
def test_issuing_and_prose_are_no_decisions(text: str) -> None:
    assert not list(deciding(ast.parse(text)))
