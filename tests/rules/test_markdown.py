"""The rules' tests are Markdown: prose that says why, Python that shows it, comments that say what is expected.

A heading names a test, each `python` fence under it is one file. A line that is to be found carries
`# error: [NKI103]`, or `# error: 12 [NKI103] "part of the message"` with the column; the comment may also stand on a
line of its own above. Every finding must be expected and every expectation met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.rules import SYNTAX_RULES, check_syntax, syntax_facts

FOLDER = Path(__file__).parent
HEADING = re.compile(r"#+ +(.+)")
EXPECTATION = re.compile(
    r"#\s*(?P<severity>error|warning|information|hint):\s*(?:(?P<column>\d+)\s+)?"
    r"\[(?P<code>NKI\d{3})\](?:\s+\"(?P<text>[^\"]*)\")?"
)


@dataclass(frozen=True)
class Snippet:
    """One fence: the line of the document that its first line is, and its text."""

    heading: str
    line: int
    source: str


@dataclass(frozen=True)
class Expectation:
    """What one comment asks for. `column` 0 and an empty `text` ask for nothing."""

    line: int
    severity: str
    code: str
    column: int
    text: str

    def is_met_by(self, found: Diagnostic) -> bool:
        return (
            (found.line, found.severity, found.code) == (self.line, self.severity, self.code)
            and self.column in (0, found.column)
            and self.text in found.message
        )


def snippets(document: str) -> Iterator[Snippet]:
    heading, opened, lines = "", 0, list[str]()
    for number, line in enumerate(document.split("\n"), start=1):
        if opened:
            if line.startswith("```"):
                yield Snippet(heading, opened + 1, "\n".join([*lines, ""]))
                opened, lines = 0, []
            else:
                lines.append(line)
        elif line.startswith("```python"):
            opened = number
        elif found := HEADING.match(line):
            heading = found[1]
    assert not opened, f"the fence at line {opened} is not closed"


def expectations(source: str) -> Iterator[Expectation]:
    waiting: list[re.Match[str]] = []
    for number, line in enumerate(source.split("\n"), start=1):
        here = list(EXPECTATION.finditer(line))
        if here and not line[: here[0].start()].strip():  # alone on its line: about the next line of code
            waiting += here
            continue
        for found in (*waiting, *here):
            yield Expectation(number, found["severity"], found["code"], int(found["column"] or 0), found["text"] or "")
        waiting = []
    assert not waiting, "an expectation stands at the end of the file"


def findings(source: str) -> list[Diagnostic]:
    try:
        return check_syntax(syntax_facts(source, "kernel.py"))
    except NkiError as error:
        return list(error.diagnostics)


def disagreements(snippet: Snippet) -> list[str]:
    """What was found and not expected, or expected and not found, by line of the document."""
    open_ends = list(expectations(snippet.source))
    out = []
    for found in findings(snippet.source):
        met = next((item for item in open_ends if item.is_met_by(found)), None)
        if met is None:
            out.append(
                f"line {snippet.line + found.line - 1}: found {found.severity}: {found.column} [{found.code}]"
                f' "{found.message}"'
            )
        else:
            open_ends.remove(met)
    return out + [
        f"line {snippet.line + item.line - 1}: expected {item.severity}: [{item.code}] {item.text}"
        for item in open_ends
    ]


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
    assert {item.code for source in bad for item in findings(source)} == {code}
    assert not [item.code for source in good for item in findings(source)]


def test_rules_are_named_after_their_codes() -> None:
    for rule in SYNTAX_RULES:
        module = rule.check.__module__.rpartition(".")[2]
        assert module.rstrip("_").replace("_", "-") == codes.get(rule.code).slug
        assert rule.stage == "syntax"
    listed = [rule.code for rule in SYNTAX_RULES]
    assert listed == sorted(set(listed))


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
