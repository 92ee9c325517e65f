"""IPython's syntax in cells: taken out, and nothing else moves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.source.magics import binds_unseen, python_of

KERNELS = sorted((Path(__file__).parents[1] / "kernels").glob("*.py"))


@pytest.mark.parametrize("file", KERNELS, ids=lambda file: file.stem)
def test_python_is_left_alone(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert python_of(text) == text


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%%nki\nx = 1", "\nx = 1"),
        ("%%nki --target trn2 --strict\n\nx", "\n\nx"),
        ("\n  \n%%time\nx", "\n  \n\nx"),
        ("%%timeit -n 3\nx", "\nx"),
        ("%%bash\nls | (\necho '", "\n\n"),
        ("%%html\n<b>", "\n"),
        ("%%writefile k.py\nx = 1", "\n"),
        ("%load_ext nki_lab", "pass"),
        ("!pip install nki-lab", "pass"),
        ("if x:\n    !ls\nelse:\n\t%timeit f()", "if x:\n    pass\nelse:\n\tpass"),
        ("files = !ls", "files = __builtins__"),
        ("a, b = %sql select (1", "a, b = __builtins__"),
        ("d['k'] = %time f()", "d['k'] = __builtins__"),
        ("nl.load?", "pass"),
        ("nl.load??", "pass"),
        ("?nl.load", "pass"),
        ("!ls \\\n  -l \\\n  .\nx", "pass\n\n\nx"),
        ("y = (a\n     % b)\nz = a % b", "y = (a\n     % b)\nz = a % b"),
        ("y = a \\\n  % b", "y = a \\\n  % b"),
        ("s = '''\n%x\n!y\n'''\n%z", "s = '''\n%x\n!y\n'''\npass"),
        ("s = \"\"\"a\\\"\"\"\n%x\"\"\"", "s = \"\"\"a\\\"\"\"\n%x\"\"\""),
        ("f('[' , # (\n  %x", "f('[' , # (\n  %x"),
        ("print('n = %d' % n)", "print('n = %d' % n)"),
        ("print(f'{x = !r}', \"y = %s\" % y)", "print(f'{x = !r}', \"y = %s\" % y)"),
        ("d['n = %s'] = !ls", "d['n = %s'] = __builtins__"),
        ("x: list = !ls", "x: list = __builtins__"),
        ("%%nki\n    x = 1\n    y = 2", "if 1:\n    x = 1\n    y = 2"),
        ("%%nki\n\n\t# a\n\t%time x\ny", "\nif 1:\n\t# a\n\tpass\ny"),
        ("%%nki\n    # a", "\n    # a"),
        ("\n    x = 1", "if 1:\n    x = 1"),
        ("%%nki\n# a\n    x = 1", "\n# a\n    x = 1"),
        ("x != y\nx == '!'", "x != y\nx == '!'"),
        ("x = y != z", "x = y != z"),
        ("", ""),
    ],
)  # fmt: skip
def test_magics_are_taken_out(cell: str, python: str) -> None:
    assert python_of(cell) == python


@given(
    st.lists(st.sampled_from(["%x", "!ls (", "x = 1", "y = (", ")", "'''", "%%nki", "z?", "\\", "if x:", "    %y", ""]))
)
def test_no_line_moves(lines: list[str]) -> None:
    cell = "\n".join(lines)
    assert python_of(cell).count("\n") == cell.count("\n")


@given(st.text())
def test_any_cell_is_read(cell: str) -> None:
    assert python_of(cell).count("\n") == cell.count("\n")


def test_what_is_left_parses() -> None:
    cell = "%%nki\n%matplotlib inline\nimport nki\nfiles = !ls\nfor f in files:\n    !wc -l {f}\nnki?\n@nki.jit\ndef k(x):\n    return x\n"
    names = [type(node).__name__ for node in ast.parse(python_of(cell)).body]
    assert names == ["Pass", "Import", "Assign", "For", "Pass", "FunctionDef"]


def test_magics_that_bind_names_are_noticed() -> None:
    assert binds_unseen("x = 1\n%run setup.py")
    assert not binds_unseen("%load_ext nki_lab\n%timeit f()\nx = 3 %run")
