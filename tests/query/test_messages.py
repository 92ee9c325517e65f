"""Where findings stand, and what they say."""

from __future__ import annotations

import pytest

from nki_lab.diagnostic import Diagnostic
from nki_lab.query import check

_HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

"""
_LINES = _HEAD.count("\n")


def findings(source: str) -> list[Diagnostic]:
    return check("kernel.py", source=_HEAD + source, target="trn2")


_WIDE = """\
def made(x):
    return nl.ndarray((256, 64), x.dtype, buffer=nl.sbuf)

@nki.jit
def kernel(x: nt.tensor[(256, 64), nl.float32]):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a = {made}
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=a{part}, src=a{part})
    nisa.dma_copy(dst=out, src=a)
    return out
"""


@pytest.mark.parametrize("made", ["nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)",
                                  "nl.ndarray((256, 64), x.dtype, buffer=nl.sbuf)"])  # fmt: skip
def test_a_tensor_with_too_many_partitions_is_told_once_at_its_allocation(made: str) -> None:
    (found,) = findings(_WIDE.format(made=made, part=""))
    assert (found.code, found.line - _LINES) == ("NKI204", 7)
    assert found.message == "'a' has 256 partitions, the memory has 128"
    uses = [item for item in found.related if item.span is not None and item.span.line - _LINES == 8]
    assert [item.message for item in uses] == ["dma_copy uses all of it as dst"]


def test_views_past_the_last_partition_are_told_where_they_are_used() -> None:
    found = findings(_WIDE.format(made="nl.ndarray((256, 64), x.dtype, buffer=nl.sbuf)", part="[100:200]"))
    assert [(item.code, item.line - _LINES) for item in found] == [("NKI204", 7), ("NKI204", 9)]


def test_what_a_helper_allocates_is_told_where_it_is_used() -> None:
    found = findings(_WIDE.format(made="made(x)", part=""))
    assert {(item.code, item.line - _LINES) for item in found} == {("NKI204", 8), ("NKI204", 9), ("NKI204", 10)}


@pytest.mark.parametrize("signature", ["x", "x: nt.tensor[(128, 64), nl.float32]"])
@pytest.mark.parametrize("line", ["nisa.memset(dst=x, 'é', valu\u00e9=0.0)", "nisa.memset(dst=x, value=0.0, scr=0)",
                                  "nl.ndarray((128, 64), nl.float32, bufer=nl.sbuf)"])  # fmt: skip
def test_a_misspelled_keyword_is_underlined_itself(signature: str, line: str) -> None:
    source = f"@nki.jit\ndef kernel({signature}):\n    {line.replace(chr(39) + 'é' + chr(39) + ', ', '')}\n"
    (found,) = [item for item in findings(source) if item.code == "NKI002"]
    text = source.split("\n")[2]
    assert text[found.column - 1 : found.end_column - 1] in ("valué", "scr", "bufer")
    assert found.line == found.end_line == _LINES + 3
