"""The signature at the cursor: the call that is open there, its parameter, and what that takes."""

from __future__ import annotations

import pytest

from nki_lab.isa.arch import arch_of
from nki_lab.isa.spec import TABLE
from nki_lab.query.completion import ParameterHelp
from nki_lab.query.names import limit_text
from tests.every import for_each
from tests.query.completion.marked import HEAD, TAIL, help_within, signature


def active(statement: str) -> str:
    """The parameter that is being typed, as the label spells it; empty for none."""
    found = help_within(statement)
    assert found is not None
    return "" if found.active is None else spelled(found.label, found.parameters[found.active])


def spelled(label: str, item: ParameterHelp) -> str:
    """The part of a label that is a parameter."""
    return label[item.start : item.end].partition("=")[0]


@pytest.mark.parametrize(
    ("statement", "parameter"),
    [
        ("nisa.nc_matmul(|", "dst"),
        ("nisa.nc_matmul(acc,|", "stationary"),
        ("nisa.nc_matmul(acc, tile, |", "moving"),
        ("nisa.nc_matmul(moving=|", "moving"),
        ("nisa.nc_matmul(moving=tile[0:64, |", "moving"),
        ("nisa.nc_matmul(dst=acc, moving=tile, |", "stationary"),
        ("nisa.nc_matmul(dst=acc, mov|", "moving"),
        ("nisa.nc_matmul(dst=acc, |moving=tile)", "stationary"),
        ("nisa.nc_matmul(dst=acc,\n        stationary=tile,\n        moving=|\n    )", "moving"),
        ("nisa.nc_matmul(dst=acc, stationary=nl.add(tile, tile), moving=|", "moving"),
        ("nisa.nc_matmul(dst=acc, unheard=|", ""),
        ("nisa.nc_matmul(*tiles, |", ""),
        ("z = (nl.add(tile, |", "y"),
        ("nl.add(tile, unknown(|", "y"),
        ("nl.ndarray((128, |", "shape"),
        ("nl.ndarray((128, 4), |", "dtype"),
        ("tile.reshape(|", "shape"),
        ("tile.ap(pattern=|", "pattern"),
        ("helper(tile, |", "u"),
        ("helper(tile, acc, scale=|", "scale"),
        ("kernel[2](x, |", "y"),
        ("nl.ds(0, |", "size"),
        ("z = nisa.nc_matmul(dst=acc).x + nl.exp(|", "x"),
    ],
)
def test_the_parameter_at_the_cursor_is_active(statement: str, parameter: str) -> None:
    assert active(statement) == parameter


@pytest.mark.parametrize(
    "statement",
    ["nisa.nc_matmul(dst=acc)|", "z = (|", "print(|", "|", "nisa.nc_matmul('|", "# nisa.nc_matmul(|", "def f(a, |"],
)
def test_there_is_no_signature_outside_of_calls(statement: str) -> None:
    assert help_within(statement) is None


def test_functions_of_the_host_are_left_to_others() -> None:
    assert signature(f"{HEAD}{TAIL}\n\non_host(|") is None
    found = signature(f"{HEAD}{TAIL}\n\nkernel(|")
    assert found is not None
    assert found.label == "kernel(x, y, flag=False)"


@for_each(sorted(TABLE))
def test_every_argument_of_an_instruction_says_what_its_declaration_says(name: str) -> None:
    instruction, arch = TABLE[name], arch_of("trn2")
    found = help_within(f"nisa.{name}(|")
    assert found is not None
    assert found.doc == instruction.summary
    texts = {spelled(found.label, item): item.text for item in found.parameters}
    assert [*texts][-1] == "name"
    for key, operand in instruction.arguments.items():
        assert operand.doc in texts[key]
        assert all(dtype.name in texts[key] for dtype in operand.dtypes)
    for limit in instruction.limits:
        if limit.operand in texts:
            assert limit_text(limit, arch) in texts[limit.operand]


def test_limits_have_the_numbers_of_the_target() -> None:
    found = help_within("nisa.nc_matmul(dst=acc, stationary=|")
    assert found is not None
    assert found.active is not None
    assert "- K <= pmax = 128" in found.parameters[found.active].text
    assert "limits on trn2" in found.parameters[found.active].text


def test_the_users_own_functions_show_their_docstrings() -> None:
    found = help_within("helper(|")
    assert found is not None
    assert (found.label, found.doc) == ("helper(t, u, scale=1.0)", "Copies.")
    assert "the tile to write" in found.parameters[0].text


def test_methods_and_classes_of_the_text() -> None:
    text = f"""{HEAD}    pass

class Loader:
    \"\"\"Loads tiles.\"\"\"

    def __init__(self, source, rows=128):
        self.source = source

    def load(self, i, out):
        nisa.dma_copy(dst=out, src=self.source[i])
        self.load(i, |


@nki.jit
def other(x):
    loader = Loader(x)
    return x
"""
    found = signature(text)
    assert found is not None
    assert (found.label, found.active) == ("load(i, out)", 1)
    found = signature(text.replace("|", "out)").replace("Loader(x)", "Loader(|"))
    assert found is not None
    assert (found.label, found.doc) == ("Loader(source, rows=128)", "Loads tiles.")


def test_beta1_has_its_own_signatures() -> None:
    text = "from neuronxcc import nki\nimport neuronxcc.nki.isa as nisa\n\n@nki.jit\ndef k(a):\n    nisa.nc_matmul(a, |"
    found = signature(text, target="trn1")
    assert found is not None
    assert found.label.startswith("nisa.nc_matmul(stationary, moving, ")
    assert found.active == 1
