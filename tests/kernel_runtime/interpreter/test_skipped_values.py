"""Values that may be a tensor, as far as the checker knows, and through which it may be written."""

from __future__ import annotations

import pytest

from nki_lab import check, spec

HEAD = """
import nki, nki.isa as nisa, nki.language as nl
from somewhere import FLAG, chosen


class Box:
    def __init__(self, tile):
        self.tile = tile


def one_of(a, b):
    if FLAG:
        return a
    return b


@nki.jit
def kernel(x):
    a = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
"""
TAIL = """
    nisa.dma_copy(dst=out, src=a)
    return out
"""
REACHING = {
    "conditional": "nisa.memset(a if FLAG else b, 0.0)",
    "conditional of a call": "nisa.memset(a, 0.0) if FLAG else None",
    "and": "FLAG and nisa.memset(a, 0.0)",
    "or": "nisa.memset(FLAG or a, 0.0)",
    "condition": "if FLAG and nisa.memset(a, 0.0): pass",
    "loop over a conditional": "for t in (a,) if FLAG else (): nisa.memset(t, 0.0)",
    "filtered": "tuple(nisa.memset(t, 0.0) for t in (a, b) if FLAG)",
    "comprehension over something unknown": "tuple(nisa.memset(a, 0.0) for t in chosen)",
    "inner comprehension": "tuple(nisa.memset(t, 0.0) for n in (1,) for t in ((a,) if FLAG else ()))",
    "item": "nisa.memset([a, b][FLAG], 0.0)",
    "entry": "nisa.memset({1: a, 2: b}[FLAG], 0.0)",
    "slice": "nisa.memset((a, b)[FLAG:][0], 0.0)",
    "get": "nisa.memset({1: a}.get(FLAG, b), 0.0)",
    "attribute": "nisa.memset(getattr(Box(a), FLAG), 0.0)",
    "returned": "nisa.memset(one_of(a, b), 0.0)",
    "made elsewhere": "nisa.memset(chosen(a, b), 0.0)",
    "part of it": "nisa.memset(a[FLAG:FLAG + 1], 0.0)",
    "part of a conditional": "nisa.memset((a if FLAG else b)[:, 0:64], 0.0)",
    "product": "nisa.memset(([a] * FLAG)[0], 0.0)",
    "sum": "nisa.memset(([a] + chosen)[0], 0.0)",
    "unpacked": "[*_, t] = [b, a] if FLAG else [a, b]; nisa.memset(t, 0.0)",
    "lambda": "(lambda t: nisa.memset(t, 0.0))(a if FLAG else b)",
    "keyword": "nisa.memset(dst=a if FLAG else b, value=0.0)",
    "through a dictionary": "nisa.memset(**{'dst': a if FLAG else b, 'value': 0.0})",
    "view": "nisa.memset((a if FLAG else b).reshape((128, 64)), 0.0)",
    "reversed": "nisa.memset(list(reversed([a, b] if FLAG else [b, a]))[0], 0.0)",
    "maximum": "nisa.memset(max([a, b], key=chosen), 0.0)",
    "next": "nisa.memset(next(t for t in (a, b) if FLAG), 0.0)",
    "mapped": "tuple(map(chosen, (a, b)))",
    "walrus": "nisa.memset(t if (t := a if FLAG else b) is not None else a, 0.0)",
}


@pytest.mark.parametrize("statement", REACHING.values(), ids=REACHING)
def test_what_may_be_written_is_not_called_unwritten(statement: str) -> None:
    source = f"{HEAD}    {statement}{TAIL}"
    found = check("chosen.py", source=source, function="kernel", args=(spec((128, 64), "float32"),), target="trn2")
    assert "NKI301" not in {item.code for item in found}


PLAIN = {
    "size": "n = a.shape[0] if FLAG else 64",
    "and": "wide = FLAG and a.shape[0] > 64",
    "filtered": "sizes = tuple(n for n in a.shape if FLAG)",
}


@pytest.mark.parametrize("statement", PLAIN.values(), ids=PLAIN)
def test_numbers_of_a_tensor_are_no_way_to_it(statement: str) -> None:
    source = f"{HEAD}    {statement}{TAIL}"
    found = check("chosen.py", source=source, function="kernel", args=(spec((128, 64), "float32"),), target="trn2")
    assert "NKI301" in {item.code for item in found}
