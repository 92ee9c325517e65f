"""The rules' documents: each says what it finds, what it leaves alone, and what mends it. See `tests.snippets`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from nki_lab import codes
from nki_lab.rules import PROGRAM_RULES, SYNTAX_RULES, TIMED_RULES
from tests.snippets import Snippet, bare, disagreements, expectations, findings, repaired, snippets

FOLDER = Path(__file__).parent


def documents() -> list[Path]:
    return sorted(FOLDER.glob("*.md"))


def cases() -> Iterator[object]:
    for document in documents():
        tests: dict[str, list[Snippet]] = {}
        for snippet in snippets(document.read_text(encoding="utf-8")):
            tests.setdefault(snippet.heading, []).append(snippet)
        for heading, files in tests.items():
            yield pytest.param(files, id=f"{document.stem}: {heading}")


@pytest.mark.parametrize("files", list(cases()))
def test_document(files: list[Snippet]) -> None:
    problems = [problem for snippet in files for problem in disagreements(snippet)]
    assert not problems, "\n".join(problems)
    for before, after in pairwise(files):
        if "fixed" in after.options:
            assert repaired(before) == bare(after.source), f"--fix of the fence at line {before.line}"
            assert repaired(after) == bare(after.source), f"--fix of the fence at line {after.line}"


@pytest.mark.parametrize("rule", SYNTAX_RULES, ids=lambda rule: rule.code)
def test_every_rule_is_shown_bad_and_good(rule: object) -> None:
    (code,) = [item.code for item in SYNTAX_RULES if item is rule]
    document = FOLDER / f"{codes.get(code).slug}.md"
    shown = [list(expectations(item.source)) for item in snippets(document.read_text(encoding="utf-8"))]
    assert any(item.code == code for items in shown for item in items)
    assert any(not items for items in shown)


@pytest.mark.parametrize("rule", SYNTAX_RULES, ids=lambda rule: rule.code)
def test_a_code_s_own_page_shows_what_its_rule_finds(rule: object) -> None:
    (code,) = [item.code for item in SYNTAX_RULES if item is rule]
    example, _, instead = codes.get(code).body.partition("## Use instead")
    bad, good = (re.findall(r"```\w+\n(.*?)```", part, re.DOTALL) for part in (example, instead))
    assert {item.code for source in bad for item in findings(Snippet("", 1, source))} == {code}
    assert not [item.code for source in good for item in findings(Snippet("", 1, source))]


def test_a_module_of_one_rule_is_named_after_its_code() -> None:
    modules: dict[str, set[str]] = {}
    rules: list[tuple[str, object]] = [(rule.code, rule.check) for rule in SYNTAX_RULES]
    rules += [(rule.code, rule.check) for rule in PROGRAM_RULES]
    rules += [(rule.code, rule.check) for rule in TIMED_RULES]
    for code, check in rules:
        module = getattr(check, "func", check).__module__  # one function may be the rule of several codes
        modules.setdefault(module.rpartition(".")[2], set()).add(code)
    for module, found in modules.items():
        slugs = {codes.get(code).slug for code in found}
        assert len(found) > 1 or slugs == {module.replace("_", "-")}
    assert len({code for code, _ in rules}) == len(rules)


# The runner itself: a test that passes whatever happens proves nothing.

KERNEL = "@nki.jit\ndef k(x):\n    return [i for i in x]{}\n"


def problems_of(comment: str) -> list[str]:
    return disagreements(Snippet("", 1, KERNEL.format(comment)))


def test_a_met_expectation_is_silent() -> None:
    assert not problems_of('  # error: 12 [NKI103] "list comprehension"')
    above = "@nki.jit\ndef k(x):\n    # error: [NKI103]\n    return [i for i in x]\n"
    assert not disagreements(Snippet("", 1, above))


@pytest.mark.parametrize(
    "comment",
    ["", "  # error: [NKI104]", "  # error: 13 [NKI103]", '  # error: [NKI103] "lambda"', "  # warning: [NKI103]"],
)
def test_a_wrong_or_missing_expectation_is_reported(comment: str) -> None:
    assert any(problem.startswith("line 3: found error: 12 [NKI103]") for problem in problems_of(comment))


def test_an_expectation_that_nothing_meets_is_reported() -> None:
    both = "  # error: [NKI103] # error: [NKI103]"
    assert problems_of(both) == ["line 3: expected error: [NKI103] "]


def test_fences_belong_to_the_heading_above_them() -> None:
    text = "# Title\n```python\na = 1\n```\n## Inner\nprose\n```text\nno\n```\n```python\nb = 2\n\nc\n```\n"
    assert list(snippets(text)) == [Snippet("Title", 3, "a = 1\n"), Snippet("Inner", 11, "b = 2\n\nc\n")]


def test_an_open_fence_is_an_error() -> None:
    with pytest.raises(AssertionError, match="line 1 is not closed"):
        list(snippets("```python\na = 1\n"))
