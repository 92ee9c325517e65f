"""The edits that mend findings."""

from __future__ import annotations

import re

import pytest

from nki_lab import query

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    tile = nl.load(x)\n"


def mended(line: str, head: str = HEAD) -> list[str]:
    """The line after each of the edits that are offered for it."""
    source = f"{head}    {line}\n    return x\n"
    lines = source.split("\n")
    out = []
    for found in query.check(source=source, target="trn2"):
        for edit in query.quick_fixes(found, lines):
            text = lines[edit.span.line - 1]
            out.append((text[: edit.span.column - 1] + edit.text + text[edit.span.end_column - 1 :]).strip())
    return out


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("y = tlie + 1", "y = tile + 1"),
        ("'😀'; nisa.tensor_copy(dst=tile, srcc=tile)", "'😀'; nisa.tensor_copy(dst=tile, src=tile)"),
        ("nisa.tensor_cpy(dst=tile, src=tile)", "nisa.tensor_copy(dst=tile, src=tile)"),
        ("t = nl.ndaray((3, 4), nl.float32)", "t = nl.ndarray((3, 4), nl.float32)"),
        ("t = nl.ndarray((3, 4), nl.floot32)", "t = nl.ndarray((3, 4), nl.float32)"),
        ("t = nl.ndarray((3, 4), 'flot32')", "t = nl.ndarray((3, 4), 'float32')"),
        ("t = tile.reshpe((64, 128))", "t = tile.reshape((64, 128))"),
        ("t = 1 is 2", "t = 1 == 2"),
        ("t = 1 is not 2", "t = 1 != 2"),
    ],
)
def test_the_likeliest_edit_comes_first(line: str, first: str) -> None:
    assert mended(line)[0] == first


@pytest.mark.parametrize(
    ("line", "edits"),
    [
        ("nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.ad)", ["nl.add"]),
        ("nisa.activation(dst=tile, op=nl.lod, data=tile)", ["nl.log"]),
        ("y = dict(op=nl.ad)", ["nl.add"]),
        ("for i in nl.afine_range(4): pass", ["nl.affine_range", "nl.static_range"]),
        ("y = nl.ad", ["nl.add", "nl.rand", "nl.load"]),
    ],
)
def test_names_that_do_not_fit_are_not_offered(line: str, edits: list[str]) -> None:
    assert [item for text in mended(line) for item in re.findall(r"nl\.\w+", text)] == edits


def annotated(source: str) -> str:
    """The source after the fix of its NKI121 finding."""
    (found,) = [item for item in query.check(source=source, target="trn2") if item.code == "NKI121"]
    lines = source.split("\n")
    (fix,) = query.quick_fixes(found, lines)
    assert not fix.sure
    for span, text in sorted(fix.edits, key=lambda edit: (edit[0].line, edit[0].column), reverse=True):
        first, last = lines[span.line - 1], lines[span.end_line - 1]
        whole = first[: span.column - 1] + text + last[span.end_column - 1 :]
        lines[span.line - 1 : span.end_line] = whole.split("\n")
    return "\n".join(lines)


KERNELS = """import nki
import nki.language as nl

@nki.jit
def first(é, x, scale=1.0, *, flag: bool = False):
    t = nl.load(x)
    return é + nl.load(é[0, 0:2, 3])

@nki.jit
def second(data: nl.ndarray, /, n, out: 'nl.ndarray' = None):
    return data.shape

@nki.jit
def third(
    a,  # the first
    b,
    c=3,
): return sum(a, start=b)
"""


def test_kernels_without_shapes_get_annotations_to_edit() -> None:
    after = annotated(KERNELS).split("\n")
    assert [line for line in after if line.startswith(("import", "def", "    a", "    b"))] == [
        "import nki",
        "import nki.language as nl",
        "import nki.typing as nt",
        "def first(é: nt.tensor[2, 128, 512], x: nt.tensor[128, 512], scale=1.0, *, flag: bool = False):",
        "def second(data: nt.tensor[128, 512], /, n, out: 'nl.ndarray' = None):",
        "def third(",
        "    a: nt.tensor[128, 512],  # the first",
        "    b: nt.tensor[128, 512],",
    ]
    assert "NKI121" not in {item.code for item in query.check(source="\n".join(after), target="trn2")}


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("import nki, nki.typing as ty", "x: ty.tensor[128, 512]"),
        ("import nki\nfrom nki import typing", "x: typing.tensor[128, 512]"),
        ("import nki\nnt = 3", "import nki.typing as nki_typing"),
        ("'''Doc.'''\nfrom __future__ import annotations\nimport nki", "import nki.typing as nt"),
        ("import neuronxcc.nki as nki", "import neuronxcc.nki.typing as nt"),
        ("from nki import (\n    jit,\n)\nimport nki", "import nki\nimport nki.typing as nt\n"),
    ],
)
def test_the_annotations_use_the_names_of_the_module(head: str, expected: str) -> None:
    after = annotated(f"{head}\n\n@nki.jit\ndef k(x):\n    return sum(x)\n")
    assert expected in after
    assert "NKI121" not in {item.code for item in query.check(source=after, target="trn2")}


def test_half_typed_code_gets_no_annotations() -> None:
    source = "import nki\n@nki.jit\ndef k(x):\n    return sum(x)\n"
    (found,) = [item for item in query.check(source=source, target="trn2") if item.code == "NKI121"]
    assert query.quick_fixes(found, source.split("\n")) != ()
    assert query.quick_fixes(found, [*source.split("\n"), "y = ("]) == ()


def test_a_file_says_once_that_it_has_no_shapes() -> None:
    source = KERNELS + "".join(f"\n@nki.jit\ndef k{n}(x):\n    return x\n" for n in range(4))
    (found,) = [item for item in query.check(source=source, target="trn2") if item.code == "NKI121"]
    assert (found.line, found.severity) == (5, "information")
    assert found.message == (
        "2 NKI calls, none with known shapes: only what holds for all shapes is checked in first, second, third, k0, k1 "
        "and 2 more"
    )
    assert [item.span.line for item in found.related if item.span] == [10, 14, 21, 25, 29, 33]
    assert "first = {" in found.help


def test_calls_with_known_shapes_are_told() -> None:
    source = f"import nki.typing as nt\n{KERNELS}".replace("x, scale", "x: nt.tensor[2, 3], scale")
    (found,) = [item for item in query.check(source=source, target="trn2") if item.code == "NKI121"]
    assert found.message.startswith("2 NKI calls, 1 with known shapes: ")


def test_a_list_default_becomes_a_tuple() -> None:
    source = "import nki\n@nki.jit\ndef k(x, pads=[1], more=[1, 2], none=[]):\n    return x\n"
    edits = [query.quick_fixes(item, source.split("\n")) for item in query.check(source=source, target="trn2")]
    assert [edit.text for part in edits for edit in part] == ["(1,)", "(1, 2)", "()"]


@pytest.mark.parametrize("line", ["nisa.tensor_copy(dst=tile, src=x)", "i = nl.arange(128)", "y = zzzzzz", "y = ("])
def test_where_the_remedy_is_not_one_word_nothing_is_offered(line: str) -> None:
    assert mended(line) == []


def test_an_edit_is_sure_where_there_is_one() -> None:
    source = f"{HEAD}    y = tlie + 1\n    t = nl.ndarray((3, 4), nl.floot32)\n    return x\n"
    found = query.check(source=source, target="trn2")
    assert [query.quick_fixes(item, source.split("\n"))[0].sure for item in found] == [True, False]
