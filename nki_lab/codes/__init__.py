"""The catalogue of diagnostic codes: one Markdown file a code, read when first asked for.

A file `<slug>.md` opens with a front matter of `key: value` lines between two `---` lines (`code`, `title`, `outcome`,
`severity`, `exception`, `aliases`), followed by the prose that `explain`, hovers and the documentation show.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

OUTCOMES: Final = ("fault", "reject", "advice")
SEVERITIES: Final = ("error", "warning", "information", "hint")
SECTIONS: Final = ("What it does", "Why it matters on the chip", "Example", "Use instead", "References")

_FOLDER: Final = Path(__file__).parent
_KEYS: Final = ("code", "title", "outcome", "severity", "exception", "aliases")


@dataclass(frozen=True, slots=True)
class Code:
    """One code: the title, the treatment and the explanation of findings of this kind.

    `exception` is the built-in exception that the raised error also is; `aliases` are the names AWS's manual gives the
    same cause; `body` is the Markdown below the front matter.
    """

    code: str
    slug: str
    title: str
    outcome: str
    severity: str
    exception: type[Exception]
    aliases: tuple[str, ...]
    body: str


def get(code: str) -> Code:
    """Return the entry of `code`, written in full ("NKI213"); KeyError where no file declares it."""
    entry = _entries().get(code)
    if entry is None:
        raise KeyError(f"no file in nki_lab/codes declares {code!r}")
    return _parse(*entry)


def all_codes() -> tuple[Code, ...]:
    """Return every code, in the order of their numbers."""
    return tuple(get(code) for code in sorted(_entries()))


def find(text: str) -> Code | None:
    """Return the entry whose code, slug or alias is `text`, whatever its case; None where there is none."""
    wanted = text.strip().casefold()
    code = _names().get(wanted) or _names().get(wanted.replace("_", "-"))
    return get(code) if code else None


@cache
def _entries() -> dict[str, tuple[str, str]]:
    """Return the slug and the file's text of each code. Whole files: they are small, only opening them costs."""
    entries: dict[str, tuple[str, str]] = {}
    for path in sorted(_FOLDER.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        _, _, rest = text.partition("\ncode:")
        code = rest.partition("\n")[0].strip()
        if not code or code in entries:
            raise ValueError(f"{path.name}: {'no code in its front matter' if not code else f'{code} is taken'}")
        entries[code] = (path.stem, text)
    return entries


@cache
def _names() -> dict[str, str]:
    pairs = [(name, entry.code) for entry in all_codes() for name in (entry.code, entry.slug, *entry.aliases)]
    return {name.casefold(): code for name, code in reversed(pairs)}  # the first code of a name wins


@cache
def _parse(slug: str, text: str) -> Code:
    opening, front, body = text.split("---\n", 2)
    if opening:
        raise ValueError(f"{slug}.md: text above the front matter")
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in front.splitlines())}
    if tuple(values) != _KEYS:
        raise ValueError(f"{slug}.md: front matter has {', '.join(values)}; expected {', '.join(_KEYS)}")
    if values["outcome"] not in OUTCOMES or values["severity"] not in SEVERITIES:
        raise ValueError(f"{slug}.md: outcome {values['outcome']!r}, severity {values['severity']!r}")
    exception = getattr(builtins, values["exception"], None)
    if not (isinstance(exception, type) and issubclass(exception, Exception)):
        raise ValueError(f"{slug}.md: {values['exception']!r} is not a built-in exception")
    return Code(
        code=values["code"],
        slug=slug,
        title=values["title"],
        outcome=values["outcome"],
        severity=values["severity"],
        exception=exception,
        aliases=tuple(alias for item in values["aliases"].split(",") if (alias := item.strip())),
        body=body.strip() + "\n",
    )
