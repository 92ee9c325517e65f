"""Pages of the reference that are made of declarations: instructions, functions, codes, targets.

Texts are those that `nki-lab explain` prints (`nki_lab.query`); what stands here is how they become pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nki_lab import codes
from nki_lab.cli.coverage import confidences
from nki_lab.isa.arch import GENERATIONS
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import TABLE, Instruction, Unmodelled
from nki_lab.kernel_runtime.collectives.collective_names import collective_names
from nki_lab.kernel_runtime.issue import nki_api_names
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.query import links
from nki_lab.query.examples import having
from nki_lab.query.names import ENGINES, documentation
from nki_lab.query.pages import page
from scripts.pages.markdown import linked

_BOLD: Final = re.compile(r"^\*\*(?P<title>[^*\n]+)\*\*(?P<rest>[^\n]*)$", re.MULTILINE)
_HUNDREDS: Final = {
    "0": "Use of nki_lab",
    "1": "Language",
    "2": "Operands and limits",
    "3": "Memory",
    "4": "Schedule and order",
    "5": "Numerics",
    "6": "Dialects and migration",
    "7": "Performance advice",
    "8": "Timing model",
    "9": "Faults of nki_lab",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the place and the Markdown of every page of this module."""
    yield "reference/isa/index.md", instructions_index()
    for name, instruction in TABLE.items():
        yield f"{links.instruction_page(name)}.md", instruction_text(instruction)
    yield "reference/isa/enumerations.md", enumerations()
    yield "reference/language/index.md", language_index()
    for name in namespaces.language_names():
        yield f"{links.language_page(name)}.md", language_text(name)
    yield "reference/collectives.md", collectives()
    yield "reference/removed.md", removed()
    yield "reference/targets.md", targets()
    yield "codes/index.md", codes_index()
    for entry in codes.all_codes():
        yield f"{links.code_page(entry.code)}.md", code_text(entry)


def toctree(names: list[str], *, hidden: bool = True) -> str:
    """Return the directive that puts documents below a page."""
    options = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return f"```{{toctree}}\n{options}\n" + "\n".join(names) + "\n```\n"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("-" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _headed(text: str) -> str:
    """Return a text of hovers with its bold titles as headings."""
    return _BOLD.sub(lambda match: f"## {match['title']}\n\n{match['rest'].strip()}".rstrip(), text)


# -- nki.isa -------------------------------------------------------------------------------------------------------


def instruction_text(instruction: Instruction) -> str:
    """Return the page of an instruction."""
    text = page(f"nki.isa.{instruction.name}")
    assert text is not None
    engines = " ".join(f'<span class="engine {name}">{ENGINES[name]}</span>' for name in instruction.engines)
    return f"# nisa.{instruction.name}\n\n{engines}\n\n{linked(_headed(text), own=instruction.name)}"


def instructions_index() -> str:
    """Return the table of all instructions by engine."""
    parts = [
        "# Instructions: `nki.isa`\n",
        (
            f"{len(TABLE)} instructions are declared. Each page has the signature, the limits with the codes"
            f" that enforce them, the numerics, the cost on each target with its source, both spellings and a"
            f" program that runs.\n"
        ),
    ]
    for engine, title in ENGINES.items():
        found = [item for item in TABLE.values() if item.engines[0] == engine]
        if not found:
            continue
        rows = [
            (f"[`{item.name}`]({item.name}.md)", linked(_first_sentence(item.doc)), _targets(item), _confidence(item))
            for item in found
        ]
        parts.append(f"## {title}\n\n{table(('instruction', 'effect', 'targets', 'cost'), rows)}")
    parts.append(
        "Enumerations, functions about the target and registers have [a page of their own](enumerations.md).\n"
    )
    return "\n".join([*parts, toctree(["enumerations", *(f"{name} <{name}>" for name in TABLE)])])


def _targets(instruction: Instruction) -> str:
    found = having(instruction)
    return "all" if len(found) == len(GENERATIONS) else ", ".join(arch.target for arch in found)


def _confidence(instruction: Instruction) -> str:
    """Return how sure the cost is, on the newest target that has the instruction."""
    if isinstance(instruction.cost, Unmodelled):
        return "unknown"
    return next(reversed(confidences(instruction).values()))


def _first_sentence(text: str) -> str:
    return text.strip().split("\n\n")[0].replace("\n", " ")


def enumerations() -> str:
    """Return the page of the names of `nki.isa` that are no instructions."""
    parts = ["# Enumerations and functions of `nki.isa`\n"]
    for name, value in namespaces.instruction_names().items():
        text = documentation(f"nki.isa.{name}")
        if name in TABLE or text is None:
            continue
        parts.append(f"## nisa.{name}\n\n{linked(_headed(text))}\n")
        members = getattr(value, "__members__", {})
        if members:
            parts.append("Members: " + ", ".join(f"`{member}`" for member in members) + ".\n")
    return "\n".join(parts)


# -- nki.language, nki.collectives -------------------------------------------------------------------------------------


def language_text(name: str) -> str:
    """Return the page of a name of `nki.language`."""
    text = documentation(f"nki.language.{name}")
    assert text is not None
    parts = [
        f"---\norphan: true\n---\n\n# nl.{name}\n\n[All names of `nki.language`](index.md)\n",
        linked(text, own=name),
    ]
    if namespaces.language_names()[name] is NkiTensor:
        for member in (item for item in dir(NkiTensor) if not item.startswith("_")):
            found = documentation(f"nki.language.{name}.{member}")
            parts.append(f"\n## {member}\n\n{linked(found or '')}\n")
    return "\n".join(parts)


def language_index() -> str:
    """Return the table of all names of `nki.language`."""
    names = namespaces.language_names()
    kinds: dict[str, list[str]] = {"Functions": [], "Data types": [], "Memories, ranges and other names": []}
    for name, value in names.items():
        callable_one = callable(value) and not isinstance(value, type)
        kind = (
            "Data types"
            if name in DTYPES or name == "bool"
            else "Functions"
            if callable_one or hasattr(value, "nki_op")
            else ""
        )
        kinds[kind or "Memories, ranges and other names"].append(name)
    parts = ["# Functions: `nki.language`\n"]
    for title, found in kinds.items():
        rows = [(f"[`nl.{name}`]({name}.md)", _summary(name)) for name in sorted(found, key=str.casefold)]
        parts.append(f"## {title}\n\n{table(('name', 'meaning'), rows)}")
    return "\n".join(parts)


def _summary(name: str) -> str:
    """Return the first sentence behind a signature."""
    text = documentation(f"nki.language.{name}") or ""
    body = re.sub(r"^(```.*?```|`[^`]+`)", "", text, count=1, flags=re.DOTALL).strip(" =\n")
    return _first_sentence(body)


def collectives() -> str:
    """Return the page of `nki.collectives`."""
    parts = [
        (
            "# Collectives: `nki.collectives`\n\nRanks exchange data in `nki_lab.run_ranks`. What they"
            " exchange is exact; [how long it takes](/timing.md) is not modelled.\n"
        )
    ]
    for name in collective_names():
        text = documentation(f"nki.collectives.{name}")
        if text is not None:
            parts.append(f"## {name}\n\n{linked(text)}\n")
    return "\n".join(parts)


def removed() -> str:
    """Return the table of the names that earlier releases had."""
    parts = [
        (
            "# Removed names\n\nNames of Beta 1 and of earlier releases that current NKI no longer has, and"
            f" what replaces them. The finding is {linked('NKI603')}.\n"
        )
    ]
    for module, names in nki_api_names.REMOVED.items():
        rows = [(f"`{name}`", linked(instead)) for name, instead in names.items()]
        parts.append(f"## `{module}`\n\n{table(('name', 'instead'), rows)}")
    return "\n".join(parts)


# -- targets -------------------------------------------------------------------------------------------------------


def targets() -> str:
    """Return the table of all numbers of the targets, each with its confidence and source."""
    archs = list(GENERATIONS.values())
    parts = [
        (
            "# Numbers of the targets\n\nEvery number of the hardware that limits and times use, as"
            " `nki_lab/isa/arch.py` states it. [Targets](/concepts/targets.md) explains them;"
            " [Timing](/timing.md) says what they are used for.\n"
        )
    ]
    rows = []
    for name in archs[0].facts:
        facts = [arch.fact(name) for arch in archs]
        origins = dict.fromkeys(f"*{fact.confidence}*: {fact.source}" for fact in facts)
        rows.append((f"`{name}`", *(_value(fact.value) for fact in facts), "; ".join(origins)))
    return "\n".join([*parts, table(("number", *(arch.target for arch in archs), "confidence and source"), rows)])


def _value(value: object) -> str:
    """Return a number or a list of numbers as a table shows it."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "–"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


# -- codes ---------------------------------------------------------------------------------------------------------


def code_text(entry: codes.Code) -> str:
    """Return the page of a code."""
    aliases = f"\n\nAWS's name: {', '.join(f'`{alias}`' for alias in entry.aliases)}" if entry.aliases else ""
    mark = (
        f'<span class="severity {entry.severity}">{entry.severity}</span> <span class="outcome">{entry.outcome}</span>'
    )
    return (
        f"---\norphan: true\n---\n\n# {entry.code}: {entry.title}\n\n{mark} `{entry.slug}`{aliases}\n\n"
        f"{linked(entry.body, own=entry.code)}\n[All codes](index.md)\n"
    )


def codes_index() -> str:
    """Return the table of all codes."""
    found: dict[str, list[codes.Code]] = {}
    for entry in codes.all_codes():
        found.setdefault(entry.code[3], []).append(entry)
    parts = [
        (
            "# Codes\n\nEvery finding has a code. A *fault* has no meaning or breaks a limit of an"
            " instruction; it stops the kernel. A *reject* is what the device compiler would refuse; results"
            " are kept. An *advice* stops nothing. `nki-lab explain NKI213` prints a page.\n"
        )
    ]
    for hundred, entries in sorted(found.items()):
        rows = [
            (
                f"[{entry.code}]({entry.code}.md)",
                entry.title,
                f'<span class="severity {entry.severity}">{entry.severity}</span>',
                entry.outcome,
            )
            for entry in entries
        ]
        parts.append(f"## {_HUNDREDS[hundred]}\n\n{table(('code', 'finding', 'severity', 'outcome'), rows)}")
    return "\n".join(parts)
