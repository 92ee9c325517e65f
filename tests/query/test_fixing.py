"""Edits of `--fix`: exact, nothing else touched, and nothing left to do afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import query
from nki_lab.query.fixes.source_fixes import fixed
from tests.scale import scaled

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

@nki.jit
def k(x: nt.tensor[128, 64], n=2{default}):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    u = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=u, src=t)
"""
TAIL = "    nisa.dma_copy(dst=out, src=u)\n    return out\n"


def kernel(*lines: str, default: str = "") -> str:
    return HEAD.format(default=default) + "".join(f"    {line}\n" for line in lines) + TAIL


def mend(source: bytes) -> bytes:
    """The source after one pass."""
    done = fixed(source, query.check(source=source, target="trn2"))
    return source if done is None else done.source


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("nisa.dma_copy(dst=t, src=x, dge_mode=3)", "nisa.dma_copy(dst=t, src=x, dge_mode=nisa.dge_mode.none)"),
        ("nisa.dma_copy(dst=t, src=x, dge_mode = (2) )", "nisa.dma_copy(dst=t, src=x, dge_mode = (nisa.dge_mode.hwdge) )"),
        ("nisa.dma_copy(t, x, dge_mode=0x2)  # two", "nisa.dma_copy(t, x, dge_mode=nisa.dge_mode.hwdge)  # two"),
        ("nki.isa.dma_copy(t, x, dge_mode=2)", "nki.isa.dma_copy(t, x, dge_mode=nki.isa.dge_mode.hwdge)"),
        ("nisa.tensor_copy(dst=u, src=t, dtype=x.dtype)", "nisa.tensor_copy(dst=u, src=t)"),
        ("nisa.tensor_copy(dst=u, dtype=nl.float32, src=t)", "nisa.tensor_copy(dst=u, src=t)"),
        ("nisa.tensor_copy(dtype=nl.float32, dst=u, src=t,)", "nisa.tensor_copy(dst=u, src=t,)"),
        ("nisa.tensor_copy(dst=u, src=t, dtype=nl.float32, )", "nisa.tensor_copy(dst=u, src=t, )"),
        ("n = 1 if x.dtype is nl.float32 else 2", "n = 1 if x.dtype == nl.float32 else 2"),
        ("n = 1 if (x.dtype) is not  nl.float32 else 2", "n = 1 if (x.dtype) !=  nl.float32 else 2"),
        ("n = nl.tile_size . psum_fmax", "n = nl.tile_size . psum_bank_fmax"),
        ("n = nl.tile_size.total_available_sbuf_size", "n = nl.tile_size.sbuf_fmax_bytes"),
        ("n = 1 if n is(2) else 2", "n = 1 if n ==(2) else 2"),
        ("n = 1 if True is n else 2", "n = 1 if True == n else 2"),
    ],
)  # fmt: skip
def test_what_has_one_exact_remedy_is_mended(line: str, after: str) -> None:
    assert mend(kernel(line).encode()).decode() == kernel(after)


@pytest.mark.parametrize(
    ("default", "after"),
    [
        (", p=[1]", ", p=(1,)"), (", p=[]", ", p=()"), (", p=[1, 2]", ", p=(1, 2)"), (", p=[ 1, 2, ]", ", p=( 1, 2, )"),
        (", p=([1])", ", p=((1,))"), (", p=[[1], 2]", ", p=([1], 2)"), (", p=[  # one\n    1]", ", p=(  # one\n    1,)"),
    ],
)  # fmt: skip
def test_a_list_default_becomes_a_tuple(default: str, after: str) -> None:
    assert mend(kernel(default=default).encode()).decode() == kernel(default=after)


@pytest.mark.parametrize(
    "line",
    [
        "mode = 3; nisa.dma_copy(t, x, dge_mode=mode)",  # a name may stand for it on purpose
        "f = nisa.dma_copy; f(t, x, dge_mode=3)",  # no module to write the member with
        "nisa.tensor_copy(dst=u, src=t, dtype=nl.float32  # why\n    )",  # a comment would be lost
        "nisa.tensor_copy(dst=u, src=t, dtype=str(3))",  # a call may do something
        "n = 1 if t is u else 2",  # identity of tensors may be meant
        "n = 1 if n is None else 2",
        "n = 1 if 1 is n is 1 else 2",
        "y = tlie",  # what is near is a guess
    ],
)
def test_what_may_be_meant_otherwise_is_left_alone(line: str) -> None:
    source = kernel(line).encode()
    assert mend(source) == source


def test_a_bare_star_stays_behind_a_default_before_the_slash() -> None:
    source = b"import nki\n\n\n@nki.jit\ndef k(x=None, /, *, y):\n    return y\n"
    assert mend(source) == source


def test_silenced_findings_are_left_alone() -> None:
    source = kernel("nisa.dma_copy(t, x, dge_mode=3)  # nki: noqa[NKI606]").encode()
    assert mend(source) == source


@pytest.mark.parametrize(
    "line",
    ["n = 1 if n is 2 else 3", "nisa.tensor_copy(\n        dst=u,\n        src=t,\n        dtype=x.dtype,\n    )"],
)
def test_old_line_ends_and_form_feeds_stay(line: str) -> None:
    source = kernel(line)
    after = mend(source.encode()).decode()
    assert after != source
    assert mend(source.replace("\n", "\r").encode()).decode() == after.replace("\n", "\r")
    at = source.index(line) - 4
    fed = f"{source[:at]}\f{source[at:]}".replace("    return", "\f    return").replace(
        "import nki.typing", "\fimport nki.typing"
    )
    mended = mend(fed.encode()).decode()
    assert mended.replace("\f", "") == after
    assert mended.count("\f") == 3


SPOILED = [
    "n = nl.tile_size.psum_fmax",
    "nisa.dma_copy(dst=t, src=x, dge_mode=3)", "nisa.dma_copy(t, x, dge_mode=2)", "n = 1 if n is 2 else 3",
    "nisa.tensor_copy(dst=u, src=t, dtype=x.dtype)", "n = 1 if x.dtype is not nl.bfloat16 else 3", "s = 'é😀'",
    "nisa.tensor_copy(u, t, dtype=nl.float32); nisa.dma_copy(t, x, dge_mode=1)", "# a comment", "m = [1, 2]",
    "nisa.tensor_copy(\n        dst=u,\n        src=t,\n        dtype=x.dtype,\n    )", "z = '''\n\t x '''",
]  # fmt: skip


@settings(max_examples=scaled(40), deadline=None)  # one example may be the first to load libcst
@given(
    st.lists(st.sampled_from(SPOILED), max_size=6),
    st.sampled_from(["", ", p=[1]", ", p=[1, 2], q=[]"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff", "# -*- coding: utf-8 -*-\n"]),
    st.booleans(),
)
def test_mending_twice_is_mending_once(lines: list[str], default: str, end: str, head: str, ends_so: bool) -> None:
    text = head + kernel(*lines, default=default)
    source = (text if ends_so else text.rstrip("\n")).replace("\n", end).encode()
    before = query.check(source=source, target="trn2")
    done = fixed(source, before)
    if done is None:
        assert not [item for item in before if item.code in ("NKI114", "NKI601", "NKI604", "NKI606")]
        return
    after = query.check(source=done.source, target="trn2")
    assert len(before) - len(after) == done.count
    assert fixed(done.source, after) is None
    # Line ends, mark and coding line stay; so do lines that nothing was found on.
    assert done.source.count(b"\r\n") == (done.source.count(b"\n") if end == "\r\n" else 0)
    assert (b"\r" in done.source) == (end != "\n")
    assert done.source.startswith(head.replace("\n", end).encode())
    assert done.source.endswith(end.encode()) == source.endswith(end.encode())
    untouched = [line for line in text.split("\n") if "é" in line or "# a comment" in line or "m = [1, 2]" in line]
    assert [line for line in done.source.decode().replace(end, "\n").split("\n") if line in untouched] == untouched


def test_an_encoding_is_kept() -> None:
    text = "# coding: latin-1\n" + kernel("nisa.dma_copy(dst=t, src=x, dge_mode=3)  # é")
    after = mend(text.encode("latin-1"))
    assert after.decode("latin-1") == text.replace("dge_mode=3", "dge_mode=nisa.dge_mode.none")


@pytest.mark.parametrize(
    "source",
    [
        b"\xff\xfe",
        b"# coding: none\n",
        b"x = (",
        b"x = " + b"(" * 3000,
    ],
)
def test_what_cannot_be_read_is_left_alone(source: bytes) -> None:
    assert mend(source) == source
