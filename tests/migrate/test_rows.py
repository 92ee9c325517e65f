"""Each row of the migration: the text before and after, run both ways with equal results; the cases are in rows.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.migrate.migrating import HEAD, NEW_HEAD, compared, kernel, migrate, specs

CASES = re.findall(
    r"^## ([^\n]+?): kernel\(([^\n]*)\), ([^\n]+)\n\n```python\n(.*?)```\n\n```python\n(.*?)```",
    Path(__file__).with_name("rows.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(
    ("signature", "shapes", "before", "after"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_a_row_is_rewritten_and_does_the_same(signature: str, shapes: str, before: str, after: str) -> None:
    arguments = specs(**dict(part.split("=") for part in shapes.split("; ")))
    text = HEAD + kernel(before, signature)
    done = migrate(text, arguments)
    assert not done.findings
    assert done.text == NEW_HEAD + kernel(after, signature)
    (verdict,) = compared(text, done, arguments)
    assert verdict.outcome == "equal", verdict.text


def test_a_migration_of_what_is_migrated_changes_nothing() -> None:
    for _, signature, shapes, before, _ in CASES:
        arguments = specs(**dict(part.split("=") for part in shapes.split("; ")))
        once = migrate(HEAD + kernel(before, signature), arguments)
        assert migrate(once.text, arguments).text == once.text
        assert not migrate(once.text, arguments).applied
