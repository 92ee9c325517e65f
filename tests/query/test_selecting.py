"""Which codes are wanted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab import codes
from nki_lab.diagnostic import diagnose
from nki_lab.query.configuration import Selection, selectors, split

ALL = [item.code for item in codes.all_codes()]
PARTS = st.lists(st.sampled_from(["NKI", "NKI1", "NKI20", "NKI213", "NKI103", "NKI6"]), max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("name", "code"),
    [("NKI213", "NKI213"), ("nki2", "NKI2"), (" NKI10 ", "NKI10"), ("moving-limit", "NKI213"), ("ALL", "NKI"),
     ("err_num_partition_exceed_arch_limit", "NKI204")],
)  # fmt: skip
def test_a_code_is_named_by_number_beginning_slug_or_alias(name: str, code: str) -> None:
    assert selectors([name]) == (code,)


@pytest.mark.parametrize("name", [" ", "NKI999", "E501", "213", "NKI2134"])
def test_what_no_code_begins_with_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        selectors([name])


def test_lists_of_names_are_split() -> None:
    assert split(["NKI1, NKI2", "NKI3,,"]) == ["NKI1", "NKI2", "NKI3"]


@given(PARTS, PARTS)
def test_a_code_is_kept_where_it_is_selected_and_not_ignored(select: tuple[str, ...], ignore: tuple[str, ...]) -> None:
    selection = Selection(select=select, ignore=ignore)
    always = {"NKI018", "NKI024", "NKI101", "NKI901"}
    for code in ALL:
        wanted = not select or code in always or any(code.startswith(part) for part in select)
        assert selection.keeps(code) == (wanted and not any(code.startswith(part) for part in ignore))
    found = [diagnose(code, "m") for code in ALL]
    assert [item.code for item in selection.of(found)] == [code for code in ALL if selection.keeps(code)]
