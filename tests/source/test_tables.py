"""Long tables, which Python's parser does not read: they mean what they meant, wherever they stand."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.source import tables
from nki_lab.source.module import tree_of

COUNT = 14_000
LINE = ",\n    "


def table(item: str = "{n}", brackets: str = "[]", *, between: str = ", ", count: int = COUNT) -> str:
    """A table of items, in which `{n}` is their number, `{m}` what repeats itself, and `{x}` the number in base 16."""
    inner = between.join(item.format(n=n, m=n % 9_000, x=hex(n)) for n in range(count))
    return f"{brackets[0]}{inner}{brackets[1:]}"


TABLES = {
    "list": table(),
    "comma at the end": table(brackets="[,\n]"),
    "tuple": table(brackets="()"),
    "set": table(brackets="{}"),
    "floats": table("{n}.{m}e-9"),
    "signs": table("-{n}"),
    "lines": table(between=LINE, brackets="[,\n]"),
    "texts": table("'k{n}'"),
    "other quotes": table('"k:{n}"'),
    "by texts": table("'k{m}': {n}", "{}"),
    "by numbers": table("{m}: -{n}.5", "{}"),
    "rows": table("[{n}, {n}.5, -1]"),
    "rows of lines": table("[{n}, 0]", between=LINE),
    "rows as tuples": table("({n}, 1)"),
    "tuple of rows": table("[{n}]", "()"),
}
"""Tables that JSON can stand for."""
OTHERS = {
    "other digits": table("{x}"),
    "underscores": table("1_{n}"),
    "names": table("NaN"),
    "truths": table("true"),
    "one in brackets": table("({n})"),
    "joined texts": table("'a' 'b'"),
    "other texts": table("b'a'"),
    "more brackets": table("[[{n}]]"),
    "both brackets": table("[{n}], ({n}, 2)"),
    "arguments": f"max{table(brackets='()')}",
    "text": f"'{table()}'",
    "text of lines": f"'''{table(between=LINE)}'''",
    "pairs and a text": table("'a:{n}'", "{}"),
}
"""Texts of which the parser reads everything."""
NAMES = {"NaN": 1, "true": 2}


def evaluated(tree: ast.Module) -> object:
    """Return the value that a tree's first statement assigns, with each table in its place."""
    made: dict[str, object] = dict(NAMES)

    class Filled(ast.NodeTransformer):
        def visit_Table(self, node: tables.Table) -> ast.expr:
            name = f"table{len(made)}"
            made[name] = node.items()
            return ast.copy_location(ast.Name(name, ast.Load()), node)

    first = ast.Module([Filled().visit(tree.body[0])], [])
    exec(compile(first, "table", "exec"), made)
    return made["x"]


def written(value: object) -> str | list[str]:
    """Return a value's text, which tells 1 from 1.0 and has a dictionary's order; a set has none that Python promises."""
    return sorted(map(repr, value)) if isinstance(value, set) else repr(value)


def count_of_tables(tree: ast.Module) -> int:
    return sum(type(node) is tables.Table for node in ast.walk(tree))


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in TABLES.items()])
@pytest.mark.parametrize("around", ["x = {}", "x = [{}, 1][0]", "x = (lambda y, z: y)({}, 'ü')"])
def test_a_table_has_its_items_and_what_follows_its_place(text: str, around: str) -> None:
    source = f"{around.format(text)}; y = 1\nfor z in [1, 2]:\n    y += z\n"
    whole, tree = ast.parse(source), tree_of(source, "table.py")
    assert count_of_tables(tree) == 1
    found, expected = evaluated(tree), evaluated(whole)
    assert found == expected
    assert written(found) == written(expected)
    assert [ast.dump(node, include_attributes=True) for node in tree.body[1:]] == [
        ast.dump(node, include_attributes=True) for node in whole.body[1:]
    ]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in OTHERS.items()])
def test_other_texts_are_read_by_the_parser(text: str) -> None:
    source = f"x = {text}\n"
    assert ast.dump(tree_of(source, "table.py"), include_attributes=True) == ast.dump(
        ast.parse(source), include_attributes=True
    )


@pytest.mark.parametrize(
    "text",
    [
        f"x = {table(brackets='[, 012]')}\n",
        f"x = {table('0{n}')}\n",
        f"x = {table(brackets='[')}\ny = 1\n",
        f"x = {table()}\ny = (\n",
        f"x = {table(brackets='[,,]')}\n",
        f"x = {table('9' * 5000, count=30)}\n",
    ],
)
def test_what_is_wrong_is_said_as_python_says_it(text: str) -> None:
    with pytest.raises(SyntaxError) as expected:
        ast.parse(text)
    with pytest.raises(SyntaxError) as found:
        tree_of(text, "<unknown>")
    assert found.value.args == expected.value.args


def test_the_parser_is_given_no_long_table() -> None:
    read = []

    def parse(text: str) -> ast.Module:
        read.append(len(" ".join(text.split())))
        return ast.parse(text)

    for text in TABLES.values():
        tables.parse(f"x = {text}\n", parse)
    assert len(read) == len(TABLES)
    assert max(read) < 100


def test_rows_are_new_in_each_evaluation() -> None:
    tree = tree_of(f"x = {TABLES['rows']}\n", "table.py")
    table = next(node for node in ast.walk(tree) if isinstance(node, tables.Table))
    first, second = table.items(), table.items()
    first[0].append(1)
    assert second[0] == [2, 2.5, -1]


ITEMS = st.one_of(
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("abc:,-. 0[]()'", max_size=5),
)


@settings(max_examples=30, deadline=None)
@example([0, -165, -173], "{")  # a set of constants and one of items have another order
@given(
    st.lists(st.one_of(ITEMS, st.lists(ITEMS, min_size=1, max_size=3)), min_size=3, max_size=8), st.sampled_from("[({")
)
def test_drawn_tables_have_their_items(items: list[object], bracket: str) -> None:
    if bracket == "{":
        items = [item for item in items if not isinstance(item, list)]
    many = items * (2 * tables.LONG // max(1, len(repr(items))) + 1)
    inner = repr(many)[1:-1]
    close = {"[": "]", "(": ")", "{": "}"}[bracket]
    source = f"x = {bracket}{inner},{close}\n" if items else "x = []\n"
    assert written(evaluated(tree_of(source, "table.py"))) == written(evaluated(ast.parse(source)))


KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

{table}

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((len(x) // {size}, 4), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out

kernel(nki_lab.spec(({rows}, 4), "float32"))
"""


@pytest.mark.parametrize("rows", [128, 129])
def test_the_evaluator_knows_the_length_of_a_table(rows: int) -> None:
    source = KERNEL.format(table=f"x = {TABLES['list']}", size=COUNT // rows, rows=rows)
    codes = {item.code for item in nki_lab.check(source=f"import nki_lab\n{source}", target="trn2")}
    assert ("NKI204" in codes) == (rows > 128), codes


@pytest.mark.parametrize("place", range(0, 300, 37))
def test_a_number_of_many_digits_is_left_to_the_parser(place: int) -> None:
    numbers = ["1"] * 40_000
    numbers[7 + place] = "7" * 301
    tree = tree_of(f"x = [{', '.join(numbers)}]\n", "table.py")
    assert count_of_tables(tree) == 0
