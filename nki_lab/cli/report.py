"""Texts of the command line: findings in several formats, explanations, and the doctor's report."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic, diagnose, error_of, render
from nki_lab.isa.spelling import did_you_mean

_SARIF_LEVELS: Final = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
_GITHUB_LEVELS: Final = {"error": "error", "warning": "warning", "information": "notice", "hint": "notice"}


def version() -> str:
    """The version of nki_lab. The package itself is upstairs of its command line, and loaded already."""
    found: str = vars(sys.modules["nki_lab"])["__version__"]
    return found


def text(found: Sequence[Diagnostic]) -> str:
    """The findings one below the other, and how many there are."""
    counts = {
        kind: sum(item.severity == kind for item in found) for kind in ("error", "warning", "information", "hint")
    }
    said = [
        f"{count} {kind}{'s' if count > 1 and kind != 'information' else ''}" for kind, count in counts.items() if count
    ]
    blocks = [f"{item.severity}: {render(item)}" for item in found]
    return "\n\n".join([*blocks, ", ".join(said) or "no findings"])


def as_json(found: Sequence[Diagnostic]) -> str:
    """A list of the findings as plain data, in the field names of `Diagnostic`."""
    return json.dumps([item.as_dict() for item in found], indent=1)


def github(found: Sequence[Diagnostic]) -> str:
    """Workflow commands that make GitHub show the findings in a change's files."""
    return "\n".join(
        f"::{_GITHUB_LEVELS[item.severity]} file={_property(item.file)},line={item.line},endLine={item.end_line},"
        f"col={item.column},endColumn={item.end_column},title={item.code}::{_data(_sentence(item))}"
        for item in found
    )


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def _sentence(item: Diagnostic) -> str:
    return "; ".join(part for part in (item.message, item.limit, item.help) if part)


def sarif(found: Sequence[Diagnostic]) -> str:
    """The findings as SARIF 2.1.0."""
    used = sorted({item.code for item in found})
    rules = [
        {"id": code, "name": codes.get(code).slug, "shortDescription": {"text": codes.get(code).title}} for code in used
    ]
    driver = {"name": "nki-lab", "version": version(), "rules": rules}
    results = [
        {
            "ruleId": item.code,
            "ruleIndex": used.index(item.code),
            "level": _SARIF_LEVELS[item.severity],
            "message": {"text": _sentence(item)},
            "locations": [_location(item)] if item.span else [],
        }
        for item in found
    ]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }
    return json.dumps(log, indent=1)


def _location(item: Diagnostic) -> dict[str, Any]:
    region = {
        "startLine": item.line,
        "startColumn": item.column,
        "endLine": item.end_line,
        "endColumn": item.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": Path(item.file).as_posix()}, "region": region}}


FORMATS: Final[dict[str, Callable[[Sequence[Diagnostic]], str]]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
}


def explain(name: str) -> str:
    """The page of a code (by number, slug or alias), or what an instruction or a nki.language function does."""
    code = codes.find(name)
    if code is not None:
        also = f"\nAlso called {', '.join(code.aliases)}.\n" if code.aliases else ""
        return (
            f"# {code.code}: {code.title}\n\n{code.outcome}, {code.severity}; {code.slug}\n{also}\n{code.body}".rstrip()
        )
    from nki_lab.kernel_runtime.frontend import doors, language

    short = name.rpartition(".")[2]
    instructions, functions = language.instruction_names(), language.names()
    found = instructions.get(short) if not name.startswith(("nl.", "nki.language.")) else None
    declared = getattr(found, "nki_instruction", None)
    if declared is not None:
        return f"nki.isa.{declared.signature()}\n\n{doors.describe(declared)}"
    if found is None:
        found = functions.get(short)
    if callable(found) and getattr(found, "__doc__", None):
        return f"{'nki.language.' if short in functions else 'nki.isa.'}{short}\n\n{found.__doc__}"
    known = [
        *(item.code for item in codes.all_codes()),
        *(item.slug for item in codes.all_codes()),
        *instructions,
        *functions,
    ]
    raise error_of(diagnose("NKI006", f"{name!r} is no code and no name of NKI", help=did_you_mean(name, known)))


def doctor(*, coverage: bool = False) -> str:
    """Versions, targets, and what is modelled; with `coverage`, every published name."""
    from nki_lab.dialects.environment import resolve_target
    from nki_lab.isa.arch import GENERATIONS, TARGETS

    lines = [f"nki_lab      {version()}", f"Python       {platform.python_version()} ({sys.executable})",
             f"system       {platform.system()} {platform.machine()}"]  # fmt: skip
    lines += [f"{name:<12} {_version(name)}" for name in ("numpy", "ml_dtypes", "torch", "jax", "numba")]
    lines += [f"BLAS         {_blas()}", ""]
    chosen = resolve_target()
    lines.append(f"target in force: {chosen.target} ({chosen.name})")
    for arch in GENERATIONS.values():
        names = ", ".join(name for name, its in TARGETS.items() if its is arch)
        lines.append(f"  {arch.name:<14} {names}")
    return "\n".join([*lines, "", *_modelled(coverage)])


def _version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return "not installed"
    return importlib.metadata.version(package)


def _blas() -> str:
    configuration: Any = np.show_config(mode="dicts")
    found = configuration.get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()


def _modelled(coverage: bool) -> list[str]:
    """How much of each module there is."""
    from nki_lab.dialects import current
    from nki_lab.kernel_runtime.frontend import published

    lines = []
    for module, listed in published.PUBLISHED.items():
        names = listed.split()
        made = vars(current.modules()[module])
        stand_ins = {name for name in names if getattr(made.get(name), "is_stand_in", False)}
        lines.append(
            f"{module}: {len(names) - len(stand_ins)} of {len(names)} functions of NKI {current.RELEASE} modelled"
        )
        if coverage:
            lines += [f"  {'not modelled' if name in stand_ins else 'modelled':<13} {name}" for name in names]
    return lines
