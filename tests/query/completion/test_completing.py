"""Names at the cursor: those that can stand there, the fitting ones first, and nothing where NKI has no say."""

from __future__ import annotations

import pytest

from nki_lab.isa.spec import REQUIRED, TABLE
from nki_lab.query.completion import candidates, forget
from tests.every import for_each
from tests.query.completion.marked import HEAD, TAIL, accepted, complete, labels, named, within

BETA1 = """from neuronxcc import nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a):
    tile = nl.load(a)
    {}
    return a
"""

# -- modules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "\n", "\n    x = (\n", ")"])
def test_an_instruction_has_its_signature_and_a_line_about_it(end: str) -> None:
    item = named(within(f"nisa.|{end}"), "nc_matmul")
    assert item.signature.startswith("(dst, stationary, moving, is_stationary_onezero=False")
    assert item.summary == TABLE["nc_matmul"].summary
    assert item.note == "Tensor Engine"
    assert item.dotted == "nki.isa.nc_matmul"


@for_each(sorted(TABLE))
def test_every_instruction_is_offered(name: str) -> None:
    assert named(within("nisa.|", target="trn3"), name).summary == TABLE[name].summary


@pytest.mark.parametrize(
    ("statement", "offered"),
    [
        ("import |", ["neuronxcc", "nki", "nki.isa", "nki.language"]),
        ("import nki.|", ["isa", "language", "collectives"]),
        ("import numpy as np, nki.|", ["isa", "language"]),
        ("from nki.|", ["isa", "language"]),
        ("from neuronxcc.nki.|", ["isa", "language"]),
        ("from nki.isa import |", ["nc_matmul", "engine"]),
        ("from nki.isa import (nc_matmul, tensor_copy as copy, |", ["activation"]),
        ("from nki import |", ["jit", "isa", "language"]),
    ],
)
def test_modules_and_their_names_follow_an_import(statement: str, offered: list[str]) -> None:
    found = complete(f"import nki\n{statement}\n")
    assert found is not None
    assert set(offered) <= {item.label for item in found.items}
    assert not any(item.label.startswith("_") for item in found.items)


@pytest.mark.parametrize("statement", ["from numpy import |", "import numpy.|", "from nki |", "from numpy import nki|"])
def test_other_imports_are_left_to_others(statement: str) -> None:
    assert complete(f"import nki\n{statement}\n") is None


def test_names_may_come_from_their_modules_directly() -> None:
    text = "from nki.isa import nc_matmul\nfrom nki import language as lang, jit\n\n@jit\ndef k(x):\n    {}\n    return x\n"
    for statement, label in [("nc_matmul(|", "dst="), ("lang.|", "ndarray"), ("nc_|", "nc_matmul")]:
        found = complete(text.format(statement))
        assert found is not None
        assert label in labels(list(found.items))


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ("nisa.nc_matmul(|", ["dst=", "stationary=", "moving="]),
        ("nisa.nc_matmul(dst=acc, |)", ["stationary=", "moving="]),
        ("nisa.nc_matmul(dst=acc, |, moving=tile)", ["stationary="]),
        ("nisa.nc_matmul(acc, |", ["stationary=", "moving="]),
        ("nisa.nc_matmul(dst=acc, stat|", ["stationary=", "moving="]),
        ("nisa.nc_matmul(\n        dst=acc,\n        |", ["stationary=", "moving="]),
        ("nisa.nc_matmul(dst=acc[0:64, f(1, 2)], # a, comment\n        |\n    )", ["stationary=", "moving="]),
        ("nisa.nc_matmul(dst=tile['), x=('], |", ["stationary=", "moving="]),
        ("if flag: nisa.nc_matmul(dst=acc, |", ["stationary=", "moving="]),
        ("z = 3; nisa.nc_matmul(dst=acc, |", ["stationary=", "moving="]),
        ("helper(|", ["t=", "u="]),
        ("helper(tile, |", ["u="]),
        ("nl.ndarray(|", ["shape=", "dtype="]),
        ("tile.reshape(|", ["shape="]),
        ("kernel[2](|", ["x=", "y="]),
    ],
)
def test_missing_keywords_come_first_required_ones_before_others(statement: str, first: list[str]) -> None:
    found = [item for item in within(statement) if item.kind == "keyword"]
    assert labels(found)[: len(first)] == first
    assert [item.note for item in found] == [""] * len(first) + ["optional"] * (len(found) - len(first))


@for_each(sorted(TABLE))
def test_the_required_keywords_of_every_instruction_come_first(name: str) -> None:
    required = [f"{key}=" for key, operand in TABLE[name].arguments.items() if operand.default is REQUIRED]
    assert labels(within(f"nisa.{name}(|)"))[: len(required)] == required


def test_a_keyword_that_is_given_is_not_offered_again() -> None:
    assert "dst=" not in labels(within("nisa.nc_matmul(dst=acc, moving=tile, |"))
    assert "moving=" not in labels(within("nisa.nc_matmul(|, moving=tile)"))


@pytest.mark.parametrize(
    ("statement", "best"),
    [
        ("nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=|", "nl.add"),
        ("nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.|", "add"),
        ("nisa.activation(dst=tile, data=tile, op=nl.|", "exp"),
        ("nisa.tensor_copy(dst=tile, src=acc, engine=|", "nisa.engine.vector"),
        ("nisa.tensor_copy(dst=tile, src=acc, engine=nisa.engine.|", "vector"),
        ("nisa.tensor_copy(dst=tile, src=acc, engine=nisa.|", "engine"),
        ("new = nl.ndarray((128, 4), |", "nl.bfloat16"),
        ("new = nl.ndarray((128, 4), dtype=nl.|", "bfloat16"),
        ("new = nl.ndarray((128, 4), nl.float32, buffer=|", "nl.sbuf"),
        ("new = nl.ndarray((128, 4), nl.float32, nl.|", "sbuf"),
        ("nisa.nc_matmul(dst=acc, stationary=tile, moving=tile, is_transpose=|", "True"),
        ("nisa.nc_matmul(dst=|", "acc"),
        ("nisa.nc_matmul(acc, |", "tile"),
    ],
)
def test_what_the_parameter_takes_is_offered_first(statement: str, best: str) -> None:
    assert named(within(statement), best).rank == candidates.EXPECTED


@pytest.mark.parametrize(
    ("statement", "label", "reason"),
    [
        ("nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=|", "nl.invert", "one input"),
        ("nisa.tensor_copy(dst=tile, src=acc, engine=|", "nisa.engine.tensor", "tensor"),
        ("nisa.nc_matmul(dst=|", "tile", ""),
        ("nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=|", "tile", ""),
    ],
)
def test_what_the_instruction_refuses_comes_behind(statement: str, label: str, reason: str) -> None:
    found = [item for item in within(statement) if item.label == label]
    assert all(item.rank > candidates.EXPECTED for item in found)
    assert all(reason in item.summary or item.note.startswith("not for") for item in found)


def test_a_value_is_spelled_as_the_text_imports_it() -> None:
    text = "import nki\nimport nki.isa as i\nfrom nki import language\n\n@nki.jit\ndef k(x):\n    {}\n    return x\n"
    for statement, label in [
        ("i.tensor_tensor(op=|", "language.add"),
        ("i.tensor_copy(engine=|", "i.engine.vector"),
    ]:
        found = complete(text.format(statement))
        assert found is not None
        assert label in labels(list(found.items))
    text = text.replace("import nki.isa as i\nfrom nki import language\n", "")
    found = complete(text.format("nki.isa.tensor_tensor(op=|"))
    assert found is not None
    assert "nki.language.add" in labels(list(found.items))


# -- members -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "members"),
    [
        ("nisa.engine.|", ["tensor", "vector", "scalar", "gpsimd"]),
        ("nl.tile_size.|", ["pmax", "psum_bank_fmax"]),
        ("tile.|", ["shape", "dtype", "reshape", "ap", "permute"]),
        ("tile[0:64].|", ["shape", "reshape"]),
        ("tile.reshape((128, 8, 8)).|", ["shape", "reshape"]),
        ("x.|", ["shape", "reshape"]),
        ("y.|", ["shape", "reshape"]),
        ("z = tile.sh|", ["shape"]),
        ("nisa.tensor_copy(dst=tile.|, src=acc)", ["reshape", "ap"]),
        ("z = [tile.|", ["reshape"]),
    ],
)
def test_members_of_enumerations_and_tensors(statement: str, members: list[str]) -> None:
    found = labels(within(statement))
    assert set(members) <= set(found)
    assert len(found) == len(set(found))


def test_what_is_known_of_a_tensor_stands_beside_its_attributes() -> None:
    found = within("tile[0:64].|")
    assert named(found, "shape").note == "(64, 64)"
    assert named(found, "dtype").note == "float32"
    assert named(found, "buffer").note == "sbuf"
    assert named(found, "reshape").signature == "(shape)"


def test_a_list_of_tiles_has_no_attributes_of_tensors_but_its_tiles_do() -> None:
    text = f"{HEAD}    tiles = []\n    nisa.memset(dst=tiles[i], value=0.0)\n    {{}}\n    return x\n"
    assert complete(text.format("tiles.|")) is None
    found = complete(text.format("tiles[i].|"))
    assert found is not None
    assert "reshape" in labels(list(found.items))


@pytest.mark.parametrize("statement", ["flag.|", "LIMIT.|", "'text'.|", "unknown.|", "(3).|", "nl.float32.|", "os.|"])
def test_other_values_have_no_members_here(statement: str) -> None:
    assert within(statement) == []


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_in_scope_are_those_bound_above() -> None:
    found = within("t|")
    assert {"tile", "acc", "x", "y", "flag", "helper", "kernel", "on_host", "LIMIT", "nl", "nisa"} <= set(labels(found))
    assert "below" not in labels(found)
    assert named(found, "tile").note == "(128, 64) float32 in SBUF"
    assert named(found, "helper").signature == "(t, u, scale=1.0)"
    assert named(found, "LIMIT").note == "512"


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nnp.|",
        "x = 'nki'\nx.|",
        "# nki\ndef f(n):\n    n|",
        f"{HEAD}{TAIL}\n\ndef g(a):\n    a|",
        f"{HEAD}{TAIL}\n\non_host(|",
        f"{HEAD}    # nl.|",
        f"{HEAD}    'nl.|",
        f"{HEAD}    '''\n    nl.|",
        f'{HEAD}    s = """a" nl.|',
        f"{HEAD}    s = f'{{nl.|",
        f"{HEAD}    12|",
        f"{HEAD}    1.|",
        f"{HEAD}    for t|",
        f"{HEAD}    def nam|",
        f"{HEAD}    import nki.language as t|",
        "import n|",
        "",
    ],
)
def test_nothing_is_offered_where_nki_has_no_say(text: str) -> None:
    assert complete(text if "|" in text else "|") is None


@pytest.mark.parametrize(
    ("statement", "typed", "offered"),
    [
        ("x = |", " ", False),
        ("nisa.nc_matmul(dst=acc, |", " ", False),
        ("nisa.nc_matmul(dst=acc,|", ",", True),
        ("nisa.nc_matmul(|", "(", True),
        ("nisa.nc_matmul(dst=|", "=", True),
        ("z =|", "=", False),
        ("z = (|", "(", False),
        ("z = tile, |", ",", False),
        ("nl.|", ".", True),
        ("import |", " ", True),
        ("from nki import |", " ", True),
    ],
)
def test_a_character_that_says_nothing_brings_no_list(statement: str, typed: str, offered: bool) -> None:
    assert bool(within(statement, typed=typed)) == offered


# -- targets and releases ----------------------------------------------------------------------------------------------


def test_what_the_target_lacks_is_marked_and_last() -> None:
    missing = named(within("nisa.|"), "nc_matmul_mx")
    assert missing.rank == candidates.ABSENT
    assert missing.note.startswith("not on trn2, but trn3")
    assert named(within("nisa.|", target="trn3"), "nc_matmul_mx").rank == candidates.USUAL
    assert named(within("nl.|"), "float8_e4m3fn_x4").rank == candidates.ABSENT
    found = within("new = nl.ndarray((128, 4), dtype=|")
    assert named(found, "nl.float4_e2m1fn_x4").note.startswith("not on trn2")


@pytest.mark.parametrize(
    ("statement", "label", "instead"),
    [
        ("nl.|", "affine_range", "write range"),
        ("nl.|", "arange", "removed"),
        ("nisa.|", "vector_engine", "nisa.engine.vector"),
        ("nl.tile_size.|", "psum_fmax", "psum_bank_fmax"),
    ],
)
def test_deprecated_and_removed_names_are_tagged(statement: str, label: str, instead: str) -> None:
    item = named(within(statement), label)
    assert item.deprecated
    assert instead in item.summary
    assert item.rank > candidates.OPTIONAL


# -- Beta 1 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "offered"),
    [
        ("nl.|", ["arange", "mgrid", "affine_range", "load"]),
        ("nisa.|", ["nc_matmul", "activation"]),
        ("nisa.nc_matmul(|", ["stationary=", "moving=", "mask="]),
        ("nisa.tensor_tensor(tile, tile, op=|", ["nl.add"]),
        ("nl.zeros((128, 4), dtype=|", ["nl.float32"]),
        ("nl.zeros((128, 4), nl.float32, buffer=|", ["nl.psum"]),
        ("tile.|", ["shape", "reshape", "broadcast_to", "astype"]),
        ("tile.broadcast_to(|", ["a", "tile"]),
        ("made = nisa.reciprocal(tile).|", ["shape"]),
    ],
)
def test_beta1_has_its_own_names(statement: str, offered: list[str]) -> None:
    found = complete(BETA1.format(statement), target="trn1")
    assert found is not None
    assert set(offered) <= {item.label for item in found.items}
    assert not any(item.label == "affine_range" and item.deprecated for item in found.items)


def test_the_current_dialect_has_no_methods_of_beta1() -> None:
    assert "astype" not in labels(within("tile.|"))


# -- what accepting writes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "label", "written"),
    [
        ("nisa.nc_|", "nc_matmul", "nisa.nc_matmul(dst=$1, stationary=$2, moving=$3)$0"),
        ("nisa.|nc_", "nc_matmul", "nisa.nc_matmul(dst=$1, stationary=$2, moving=$3)$0nc_"),
        ("nisa.nc_|(dst=acc)", "nc_matmul", "nisa.nc_matmul(dst=acc)"),
        ("nisa.nc_| (dst=acc)", "nc_matmul", "nisa.nc_matmul (dst=acc)"),
        ("hel|", "helper", "helper(t=$1, u=$2)$0"),
        ("tile.resh|", "reshape", "tile.reshape(shape=$1)$0"),
        ("nisa.activation(op=nl.e|", "exp", "nisa.activation(op=nl.exp"),
        ("nisa.activation(op=e|", "nl.exp", "nisa.activation(op=nl.exp"),
        ("nisa.activation(d|", "dst=", "nisa.activation(dst="),
        ("n = nl.program_n|", "program_ndim", "n = nl.program_ndim($1)$0"),
        ("z = nl.tile_size.p|", "pmax", "z = nl.tile_size.pmax"),
    ],
)
def test_accepting_a_function_writes_its_required_keywords(statement: str, label: str, written: str) -> None:
    assert accepted(f"{HEAD}    {statement}{TAIL}", label) == f"{HEAD}    {written}{TAIL}"


def test_without_snippets_the_name_alone_is_written() -> None:
    text = f"{HEAD}    nisa.nc_|{TAIL}"
    assert accepted(text, "nc_matmul", snippets=False) == f"{HEAD}    nisa.nc_matmul{TAIL}"


def test_a_decorator_and_an_import_are_no_calls() -> None:
    assert accepted("import nki\n\n@nki.j|\ndef k(x):\n    return x\n", "jit").split("\n")[2] == "@nki.jit"
    assert accepted("from nki.isa import nc_|\n", "nc_matmul") == "from nki.isa import nc_matmul\n"


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_names_follow_the_text_from_statement_to_statement() -> None:
    body = ["first = nl.load(x)", "second = first[0:64]", "third = second.reshape((64, 8, 8))"]
    for count in range(len(body)):
        above = "".join(f"    {line}\n" for line in body[: count + 1])
        name = body[count].partition(" ")[0]
        for typed in ("nisa.tensor_copy(dst=|", f"{name}.|"):
            found = complete(f"{HEAD}{above}    {typed}{TAIL}")
            assert found is not None
            assert {name, "reshape"} & {item.label for item in found.items}
    found = complete(f"{HEAD}    t|{TAIL}")
    assert found is not None
    assert not {"first", "second", "third"} & {item.label for item in found.items}


def test_the_answer_does_not_depend_on_what_was_asked_before() -> None:
    text = f"{HEAD}    late = tile[0:32]\n    nisa.tensor_copy(dst=|, src=acc){TAIL}"

    def shown() -> list[tuple[str, int, str, str]]:
        found = complete(text)
        assert found is not None
        return [(item.label, item.rank, item.note, item.signature) for item in found.items]

    alone = shown()
    for other in (f"{HEAD}    x = (|{TAIL}", "import nki\nnki.|", f"{HEAD.replace('tile', 'other')}    ot|{TAIL}"):
        complete(other)
        assert shown() == alone
    forget("marked.py")
    assert shown() == alone
