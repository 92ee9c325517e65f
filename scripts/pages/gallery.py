"""The gallery: each kernel of `examples/kernels` with its versions, their times, checks, source and runs."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import nki_lab
from nki_lab import quantities
from nki_lab.export import formatting
from nki_lab.export.html import html
from scripts.pages.blocks import ROOT
from scripts.pages.documents import put_run
from scripts.pages.markdown import KERNELS, frame, linked
from scripts.pages.reference import table, toctree

_TARGET: Final = "trn2"
_TITLE: Final = re.compile(r"^(?P<number>\d+) · (?P<title>.*?)\.?$")


class Version(NamedTuple):
    """One version of a kernel, run and compared with the kernel's reference."""

    name: str
    summary: str
    run: nki_lab.Run


class Example(NamedTuple):
    """A file of the gallery: the texts of its module, and its versions from plain to fast."""

    stem: str
    title: str
    text: str
    source: str
    target: str
    versions: list[Version]


def stems() -> list[str]:
    """Return the names of the gallery's files."""
    return [file.stem for file in sorted((ROOT / KERNELS).glob("k*.py"))]


@cache
def example(stem: str) -> Example:
    """Run all versions of a kernel on its example's arguments; AssertionError where one differs from the reference."""
    nki_lab.activate()
    file = ROOT / KERNELS / f"{stem}.py"
    source = file.read_text(encoding="utf-8")
    module = runpy.run_path(str(file))
    title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    match = _TITLE.match(title)
    target = _TARGET if _TARGET in module["TARGETS"] else module["TARGETS"][-1]
    versions = [_version(kernel, module, target) for kernel in module["KERNELS"]]
    return Example(stem, match["title"] if match else title, text.strip(), source, target, versions)


def _version(kernel: Any, module: dict[str, Any], target: str) -> Version:
    run = nki_lab.run(kernel, *module["inputs"](), target=target)
    run.check(module["reference"])
    return Version(kernel.__name__, (kernel.__doc__ or "").strip().split("\n\n")[0].replace("\n", " "), run)


def pages(out: Path, wanted: list[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the place and the Markdown of the gallery's pages; pages of runs go below `out`."""
    found = [example(stem) for stem in (stems() if wanted is None else wanted)]
    if len(found) == len(stems()):
        yield "gallery/index.md", index(found)
    for item in found:
        for version in item.versions:
            put_run(out, run_page(item, version), html(version.run.recording, version.run.pins))
        yield f"gallery/{item.stem}.md", page(item)


def run_page(item: Example, version: Version) -> str:
    """Return the name of the page of a version's run."""
    return f"{item.stem}-{version.name}.html"


def index(found: list[Example]) -> str:
    """Return the page of all kernels."""
    rows = []
    for item in found:
        first, last = item.versions[0].run.summary, item.versions[-1].run.summary
        gain = f"{first.makespan_ns / last.makespan_ns:.1f}×" if len(item.versions) > 1 else "–"
        plain = _time(item.versions[0].run) if len(item.versions) > 1 else "–"
        subject = item.text.partition(". ")[0].replace("\n", " ").rstrip(".")
        rows.append((f"[{item.title}]({item.stem}.md)", subject, plain, _time(item.versions[-1].run), gain))
    head = ("kernel", "subject", "as first written", "last version", "gain")
    return (
        "# Gallery\n\nKernels from `examples/kernels`, ordered by complexity. Each page shows the versions of a kernel"
        " from plain to fast, with predicted times, a comparison with a float64 reference, and every run in the live"
        f" visualizer. Times are predictions for {_TARGET} where the kernel runs there.\n\n"
        f"{table(head, rows)}\n{toctree([item.stem for item in found])}"
    )


def page(item: Example) -> str:
    """Return the page of a kernel."""
    rows = []
    for version in item.versions:
        summary = version.run.summary
        rows.append(
            (
                f"[`{version.name}`](#{version.name.replace('_', '-')})"
                if len(item.versions) > 1
                else f"`{version.name}`",
                _time(version.run) + formatting.within(version.run.recording.summary, version.run.recording.makespan),
                str(summary.instructions),
                quantities.share(summary.mfu),
                quantities.share(summary.mbu),
            )
        )
    head = ("version", "predicted time, 80 % interval", "instructions", "MFU", "MBU")
    last = item.versions[-1]
    arrays = ", ".join(f"`{array.dtype}[{','.join(map(str, array.shape))}]`" for array in last.run.outputs)
    parts = [
        f"# {item.title}\n\n{linked(item.text)}\n",
        table(head, rows),
        (
            f"Every version was run on {item.target} and agrees with the float64 reference of the file within"
            f" the tolerance of its dtype; it returns {arrays}. The interval holds 80 % of published times of such runs"
            " ([accuracy](/accuracy.md)).\n"
        ),
    ]
    for version in reversed(item.versions):
        title = f"{version.name} on {item.target}, {_time(version.run)}"
        parts.append(f"## {version.name}\n\n{linked(version.summary)}\n")
        parts.append(f"{frame(run_page(item, version), title, depth=1)}\n")
    parts.append(f"## Source\n\n`{KERNELS}/{item.stem}.py`\n\n```python\n{item.source}```\n")
    return "\n".join(parts)


def _time(run: nki_lab.Run) -> str:
    return _duration(run.summary.makespan_ns)


def _duration(nanoseconds: float) -> str:
    return quantities.duration(round(nanoseconds * 1000)).replace(" ", "\N{NO-BREAK SPACE}")
