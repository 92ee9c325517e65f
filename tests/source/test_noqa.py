"""Comments that silence findings."""

from __future__ import annotations

import pytest

from nki_lab import query
from nki_lab.query.checking import Document

HEAD = "import nki\n\n@nki.jit\ndef k(a):\n"


def codes(line: str) -> list[str]:
    """The codes found on the one line of a kernel, which has NKI103 and NKI104 without a comment."""
    return [item.code for item in query.check(source=f"{HEAD}    {line}\n", target="trn2") if item.line == 5]


FAULTS = "return [(lambda y: y)(x) for x in a.shape]"


def test_without_a_comment_both_are_said() -> None:
    assert sorted(codes(FAULTS)) == ["NKI103", "NKI104"]


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("# nki: noqa", []),
        ("#nki:noqa", []),
        ("# NKI: NOQA", []),
        ("# nki: noqa because it is so", []),
        ("# type: ignore  # nki: noqa", []),
        ("# nki: noqa[NKI103]", ["NKI104"]),
        ("# nki: noqa[ nki104 ]", ["NKI103"]),
        ("# nki: noqa[NKI103, NKI104]", []),
        ("# nki: noqa[NKI1]", []),
        ("# nki: noqa[NKI2]", ["NKI103", "NKI104"]),
        ("# nki: noqa[]", ["NKI103", "NKI104"]),
        ("# noqa", ["NKI103", "NKI104"]),
        ("# nki: noqahere", ["NKI103", "NKI104"]),
    ],
)
def test_a_comment_silences_what_it_names(comment: str, left: list[str]) -> None:
    assert sorted(codes(f"{FAULTS}  {comment}")) == left


def test_the_same_words_in_a_string_silence_nothing() -> None:
    assert sorted(codes(f"s = '# nki: noqa'; {FAULTS}")) == ["NKI103", "NKI104"]
    assert codes(f"s = '# nki: noqa[NKI9]'; {FAULTS}  # nki: noqa") == []


def test_a_comment_counts_where_a_finding_ends_too() -> None:
    source = f"{HEAD}    return [\n        x for x in a.shape\n    ]  # nki: noqa[NKI103]\n"
    assert [item.code for item in query.check(source=source, target="trn2") if item.code == "NKI103"] == []


def test_what_cannot_be_read_is_said_all_the_same() -> None:
    assert codes("return (  # nki: noqa") == ["NKI101"]


def test_an_editor_s_document_hears_the_comments_in_both_its_answers() -> None:
    document = Document("k.py")
    assert document.update(f"{HEAD}    {FAULTS}  # nki: noqa\n") == []
    assert [item.code for item in document.update(f"{HEAD}    {FAULTS}  # nki: noqa[NKI104]\n")] == ["NKI103"]
