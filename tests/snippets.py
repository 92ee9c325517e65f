"""Markdown documents as tests: prose that says why, Python that shows it, comments that say what is expected.

A heading names a test, each `python` fence under it is one file. A line that is to be found carries
`# error: [NKI103]`, or `# error: 12 [NKI103] "part of the message"` with the column; the comment may also stand on a
line of its own above. Every finding must be expected and every expectation met.

Words behind `python` say how a fence is read; `key: value` lines between two `---` lines that open the document are
what all of its fences say:

* `check=full`: the whole check, with shapes from annotations or calls, and not the syntax rules only. Without imports
  of its own such a fence begins with those of its `dialect=current` or `dialect=beta1`. It is also run, on zeros, with
  each signature that the check saw, and must be refused at the same place with the same code, or show the same errors;
  `run=no` is for what differs by nature, and the prose says why. `target=trn3` is the chip; without it, trn2.
* `fixed`: what `--fix` makes of the fence before. It is checked like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki_lab import query, session
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.dialects.kernel import Kernel
from nki_lab.kernel_runtime.interpreter import ModuleSource, launches
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.query.fixes.source_fixes import fixed
from nki_lab.rules import check_syntax
from nki_lab.source import syntax_facts
from tests.verdicts import loaded

HEADS: Final = {
    "current": "import nki; import nki.isa as nisa; import nki.language as nl; import nki.typing as nt\n",
    "beta1": "from neuronxcc import nki; import neuronxcc.nki.isa as nisa; import neuronxcc.nki.language as nl;"
    " import neuronxcc.nki.compiler as ncc; import neuronxcc.nki.typing as nt\n",
}
HEADING: Final = re.compile(r"#+ +(.+)")
EXPECTATION: Final = re.compile(
    r"#\s*(?P<severity>error|warning|information|hint):\s*(?:(?P<column>\d+)\s+)?"
    r"\[(?P<code>NKI\d{3})\](?:\s+\"(?P<text>[^\"]*)\")?"
)
KEYS: Final = {
    "check": ("syntax", "full"),
    "dialect": ("current", "beta1"),
    "run": ("yes", "no"),
    "target": ("trn1", "trn2", "trn3"),
}
_IMPORTS: Final = re.compile(r"^(import|from) ", re.MULTILINE)
_numbers = count()


@dataclass(frozen=True)
class Snippet:
    """One fence: the line of the document that its first line is, its text, and how it is read."""

    heading: str
    line: int
    source: str
    options: Mapping[str, str] = field(default_factory=dict)

    def option(self, key: str) -> str:
        """What is said about `key`; its first choice, and trn2, where nothing is."""
        return self.options.get(key, "trn2" if key == "target" else KEYS[key][0])

    @property
    def is_full(self) -> bool:
        return self.option("check") == "full"

    @property
    def head(self) -> str:
        """The line of imports that stands above the source."""
        return HEADS[self.option("dialect")] if self.is_full and not _IMPORTS.search(self.source) else ""


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


# -- documents -----------------------------------------------------------------------------------------------------


def snippets(document: str) -> Iterator[Snippet]:
    """The fences of a document, in order."""
    lines = document.split("\n")
    start, common = _front(lines)
    heading, opened, inside, options = "", 0, list[str](), dict[str, str]()
    for number, line in enumerate(lines[start:], start=start + 1):
        if opened:
            if line.startswith("```"):
                yield Snippet(heading, opened + 1, "\n".join([*inside, ""]), options)
                opened, inside = 0, []
            else:
                inside.append(line)
        elif line.startswith("```python"):
            opened, options = number, common | _options(line.removeprefix("```python").split())
        elif found := HEADING.match(line):
            heading = found[1]
    assert not opened, f"the fence at line {opened} is not closed"


def _front(lines: list[str]) -> tuple[int, dict[str, str]]:
    if lines[0] != "---":
        return 0, {}
    end = lines.index("---", 1)
    return end + 1, _options(["=".join(part.strip() for part in line.split(":")) for line in lines[1:end]])


def _options(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        key, _, value = word.partition("=")
        assert word == "fixed" or value in KEYS.get(key, ()), f"a fence says {word!r}"
        found[key] = value
    return found


def expectations(source: str) -> Iterator[Expectation]:
    """What the comments of a source ask for."""
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


def bare(source: str) -> str:
    """A source without its expectations."""
    lines = []
    for line in source.split("\n"):
        found = EXPECTATION.search(line)
        kept = line if found is None else line[: found.start()].rstrip()
        if found is None or kept:
            lines.append(kept)
    return "\n".join(lines)


# -- what is found -------------------------------------------------------------------------------------------------


def findings(snippet: Snippet) -> list[Diagnostic]:
    """What the syntax rules, or the whole check, find in a snippet with its head, by line of the snippet."""
    above = snippet.head.count("\n")
    return [_raised(item, above) for item in _found(snippet)] if above else _found(snippet)


def _raised(item: Diagnostic, above: int) -> Diagnostic:
    """A finding without the lines above the snippet, where it stands and where its message names another line."""
    message = re.sub(r"\bline (\d+)", lambda found: f"line {int(found[1]) - above}", item.message)
    span = item.span and replace(item.span, line=item.span.line - above, end_line=item.span.end_line - above)
    return replace(item, message=message, span=span)


def _found(snippet: Snippet) -> list[Diagnostic]:
    text = snippet.head + snippet.source
    if snippet.is_full:
        return query.check(source=text, path="kernel.py", target=snippet.option("target"))
    try:
        return check_syntax(syntax_facts(text, "kernel.py"))
    except NkiError as error:
        return list(error.diagnostics)


def disagreements(snippet: Snippet) -> list[str]:
    """What was found and not expected, or expected and not found, by line of the document; then what the run says."""
    open_ends = list(expectations(snippet.source))
    out = []
    everything = findings(snippet)
    for found in everything:
        met = next((item for item in open_ends if item.is_met_by(found)), None)
        if met is None:
            out.append(
                f"line {snippet.line + found.line - 1}: found {found.severity}: {found.column} [{found.code}]"
                f' "{found.message}"'
            )
        else:
            open_ends.remove(met)
    out += [
        f"line {snippet.line + item.line - 1}: expected {item.severity}: [{item.code}] {item.text}"
        for item in open_ends
    ]
    if snippet.is_full and snippet.option("run") == "yes" and not out:
        out += _unlike_the_run(snippet, everything)
    return out


def repaired(snippet: Snippet) -> str:
    """What `--fix` makes of a snippet, without expectations."""
    text = snippet.head + bare(snippet.source)
    found = _found(Snippet(snippet.heading, snippet.line, bare(snippet.source), snippet.options))
    done = fixed(text.encode(), found)
    return (text if done is None else done.source.decode()).removeprefix(snippet.head)


# -- what a run says -------------------------------------------------------------------------------------------------


def _unlike_the_run(snippet: Snippet, checked: list[Diagnostic]) -> list[str]:
    """How running the kernels differs from checking them: the fault, or else the errors."""
    file = Path(f"markdown_{next(_numbers)}.py")
    text = snippet.head + snippet.source
    above = snippet.head.count("\n")
    wanted = {(item.code, item.line): item.outcome for item in checked if item.severity == "error"}
    try:
        run = _errors_of_run(text, file, snippet.option("target"))
    except NkiError as error:
        run = {(item.code, item.line): item.outcome for item in error.diagnostics}
    run = {(code, line - above): outcome for (code, line), outcome in run.items()}
    faults = {place for place, outcome in run.items() if outcome == "fault"}
    if faults:
        return [] if faults <= set(wanted) else [f"line {snippet.line}: the run is refused with {faults}"]
    if run == wanted:
        return []
    return [f"line {snippet.line}: the run shows {sorted(run)}, the check {sorted(wanted)}"]


def _errors_of_run(text: str, file: Path, target: str) -> dict[tuple[str, int], str]:
    module = loaded(file, text)
    source = ModuleSource.parse(text, str(file))
    kernels = {name: value for name, value in vars(module).items() if issubclass(type(value), Kernel)}
    errors: dict[tuple[str, int], str] = {}
    for name, known in launches(source, kernels).own.items():
        for signature in known:
            values = {key: _zeros(value) for key, value in signature.kwargs.items()}
            made = session.execute(session.Launch(kernels[name].function, target, grid=signature.grid, dialect=kernels[name].dialect), tuple(_zeros(item) for item in signature.args), values, on_error="report", timed=True)  # fmt: skip
            found = (*made.diagnostics, *(made.error.diagnostics if made.error else ()))
            errors |= {(item.code, item.line): item.outcome for item in found if item.severity == "error"}
    return errors


def _zeros(value: Any) -> Any:
    return np.zeros(value.shape, value.dtype.host) if isinstance(value, TensorSpec) else value
