"""The quick fix of a finding is what `--fix` does about it, and that finding is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nki_lab import query
from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.query.fixes import exact_fix
from nki_lab.query.fixes.source_fixes import FIXABLE, fixed
from nki_lab.query.fixes.text_edits import text_edits
from tests.query.test_fixing import SPOILED, kernel
from tests.snippets import HEADS, bare, snippets

RULES = Path(__file__).parents[1] / "rules"
MORE = {"NKI109": "def k(x, *, flag=True)", "NKI114": "def k(x, pads=[1], more=[\n    2,\n])"}


def sources() -> Iterator[tuple[str, str]]:
    """The fences of the rules' documents, whole."""
    for document in sorted(RULES.glob("*.md")):
        for snippet in snippets(document.read_text(encoding="utf-8")):
            text = bare(snippet.source)
            head = "" if "import" in text else HEADS[snippet.option("dialect")]
            yield snippet.option("target"), head + text
    yield "trn2", kernel(*SPOILED)
    yield "trn2", "é = '😀'\n" + kernel(*SPOILED, default=", p=[1, 2], q=[]")
    for signature in MORE.values():
        yield "trn2", f"import nki\n\n\n@nki.jit\n{signature}:\n    return x\n"


def fixable(text: str, target: str) -> list[Diagnostic]:
    found = query.check(source=text, path="kernel.py", target=target)
    return [item for item in found if item.code in FIXABLE and item.file == "kernel.py"]


def applied(lines: Sequence[str], edits: Sequence[tuple[Span, str]]) -> str:
    """The text after edits of places in it as it is."""
    text = "\n".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    order = sorted(edits, key=lambda edit: (edit[0].line, edit[0].column), reverse=True)
    for span, new in order:
        start, end = starts[span.line - 1] + span.column - 1, starts[span.end_line - 1] + span.end_column - 1
        text = text[:start] + new + text[end:]
    return text


def name(item: Diagnostic) -> tuple[str, str]:
    return item.code, item.message


@pytest.mark.extended
def test_every_fix_of_the_command_is_a_quick_fix() -> None:
    seen: Counter[str] = Counter()
    for target, text in sources():
        for item in fixable(text, target):
            done = fixed(text.encode(), [item])
            lines = text.split("\n")
            edits = exact_fix.exact_edits(item, lines)
            assert bool(edits) == (done is not None), f"{item}\n{text}"
            if done is None:
                continue
            fix = query.quick_fixes(item, lines)[0]
            after = applied(lines, fix.edits)
            assert after == done.source.decode(), f"{item}\n{text}"
            assert fix.sure
            before, later = Counter(map(name, fixable(text, target))), Counter(map(name, fixable(after, target)))
            assert later[name(item)] == before[name(item)] - 1, f"{item}\n{after}"
            seen[item.code] += 1
    assert set(seen) == FIXABLE


def test_what_else_is_half_typed_hides_no_fix() -> None:
    text = kernel("nisa.dma_copy(dst=t, src=x, dge_mode=3)") + "\n\ndef other(\n"
    (item,) = [item for item in fixable(text, "trn2") if item.code == "NKI606"]
    lines = text.split("\n")
    (fix,) = query.quick_fixes(item, lines)
    assert applied(lines, fix.edits) == text.replace("dge_mode=3", "dge_mode=nisa.dge_mode.none")


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("nisa.dma_copy(dst=t, src=x, dge_mode=3)", "Write nisa.dge_mode.none"),
        ("nisa.tensor_copy(dst=u, src=t, dtype=x.dtype)", "Remove dtype=x.dtype"),
        ("n = nl.tile_size.psum_fmax", "Write psum_bank_fmax"),
        ("n = 1 if n is 2 else 3", "Write =="),
    ],
)
def test_titles_say_what_is_written(line: str, title: str) -> None:
    text = kernel(line)
    (item,) = fixable(text, "trn2")
    assert [fix.title for fix in query.quick_fixes(item, text.split("\n"))] == [title]


def test_without_libcst_simple_fixes_are_offered_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_fix, "has_rewriter", lambda: False)
    text = kernel("n = 1 if n is 2 else 3", "nisa.dma_copy(dst=t, src=x, dge_mode=3)")
    titles = [fix.title for item in fixable(text, "trn2") for fix in query.quick_fixes(item, text.split("\n"))]
    assert titles == ["Compare with =="]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc", "a\nc"), ("a\nb", "a"), ("a", "a\nb"), ("b\nc", "c"), ("c", "b\nc"), ("a\n", "a"), ("", "x"),
        ("f(one, two)", "f(one)"), ("a\nb\nc\nd", "a\nx\ny\nz\nd"), ("k[2](x)", "k(x)"), ("x\nx\nx", "x\nx"), ("aa", "a"),
        ("é😀 is é", "é😀 == é"),
    ],
)  # fmt: skip
def test_edits_make_one_text_of_another(old: str, new: str) -> None:
    edits = text_edits(old.split("\n"), new.split("\n"), "f")
    assert applied(old.split("\n"), edits) == new
