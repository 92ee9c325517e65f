"""Pages of nki_lab's own interface: the Python names that `import nki_lab` gives, and the command line."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from typing import Final

import nki_lab
from nki_lab import plots, testing
from nki_lab.cli import parser
from nki_lab.result.comparison import RunComparison
from nki_lab.result.ranks import RankRuns
from nki_lab.result.recorded import SavedRun
from nki_lab.sweeps.table import Sweep
from scripts.pages.markdown import linked
from scripts.pages.reference import table

_ANNOTATED: Final = re.compile(r"\bnki_lab(?:\.\w+)+\.(?=\w)|\btyping\.|\bcollections\.abc\.")
_WIDTH: Final = 88
_ORDER: Final = ("activate", "deactivate", "run", "profile", "compile", "check", "open", "run_ranks", "spec")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the place and the Markdown of every page of this module."""
    yield "reference/python.md", python()
    yield "reference/cli.md", command_line()


# -- Python --------------------------------------------------------------------------------------------------------


def python() -> str:
    """Return the page of the public Python names."""
    names = [*_ORDER, *(name for name in public_names() if name not in _ORDER)]
    parts = [
        (
            "# Python: `nki_lab`\n\n`import nki_lab` gives these names, and loads NumPy and nothing else of"
            " weight. What a name needs is loaded when it is used.\n"
        )
    ]
    for name in names:
        value = getattr(nki_lab, name)
        if inspect.isclass(value):
            parts += _class(f"nki_lab.{name}", value)
        elif not inspect.ismodule(value):
            parts.append(_function(f"nki_lab.{name}", value, "##"))
    for kind in (SavedRun, RankRuns, RunComparison, Sweep):
        parts += _class(kind.__name__, kind)
    for module in (plots, testing):
        parts.append(f"## {module.__name__}\n\n{_text(module)}\n")
        parts += [_of_module(f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__]
    return linked("\n".join(parts))


def _of_module(name: str, value: object) -> str:
    """Return the part about a name of the module: a function with its signature, a class or a constant."""
    if inspect.isfunction(value):
        return _function(name, value, "###")
    return f"### {name}\n\n{_text(value) if inspect.isclass(value) else f'`{value!r}`'}\n"


def public_names() -> list[str]:
    """Return the names that `import nki_lab` gives."""
    return [*nki_lab.__all__, *(name for name in vars(nki_lab)["_PLACES"] if name not in nki_lab.__all__)]


def _class(name: str, value: type) -> Iterator[str]:
    """Yield the parts of a class: its text and those of its public members, in the order of their definition."""
    yield f"## {name}\n\n{_text(value)}\n"
    for field, declared, text in _fields(value):
        yield f"### {name.rpartition('.')[2]}.{field}\n\n```python\n{declared}\n```\n\n{text}\n"
    seen: set[str] = set()
    for base in value.__mro__[:-1]:
        if not base.__module__.startswith("nki_lab"):
            continue
        for member, inner in vars(base).items():
            if member.startswith("_") or member in seen:
                continue
            seen.add(member)
            bare = name.rpartition(".")[2]
            if isinstance(inner, property):
                yield f"### {bare}.{member}\n\n{_text(inner)}\n"
            elif inspect.isfunction(inner):
                yield _function(f"{bare}.{member}", inner, "###")


def _fields(value: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, declaration and text of each field of a dataclass that has a text below it."""
    if not is_dataclass(value):
        return
    (definition,) = ast.parse(inspect.cleandoc(inspect.getsource(value))).body
    assert isinstance(definition, ast.ClassDef)
    for field, text in pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield ast.unparse(field.target), ast.unparse(field), inspect.cleandoc(str(text.value.value))


def _function(name: str, value: object, level: str) -> str:
    """Return a function with its signature and its text."""
    assert callable(value)
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name == "self":
        signature = signature.replace(parameters=parameters[1:])
    return f"{level} {name}\n\n```python\n{_call(name, signature)}\n```\n\n{_text(value)}\n"


def _call(name: str, signature: inspect.Signature) -> str:
    """Return a signature behind its name; a long one with a line for each parameter."""
    shown = _bare(f"{name}{signature}")
    if len(shown) <= _WIDTH:
        return shown
    returned = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    lines, kind = [], None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            lines.append("    *,")
        lines.append(f"    {parameter},")
        kind = parameter.kind
    return _bare("\n".join([f"{name}(", *lines, f"){returned}"]))


def _bare(text: str) -> str:
    """Return a signature without the modules of its annotations."""
    return _ANNOTATED.sub("", text).replace("'", "")


def _text(value: object) -> str:
    return inspect.getdoc(value) or ""


# -- command line --------------------------------------------------------------------------------------------------


def command_line() -> str:
    """Return the page of the command line, of its own parser."""
    whole = parser()
    (commands,) = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    texts = {action.dest: action.help or "" for action in commands._choices_actions}
    module = importlib.import_module("nki_lab.cli")
    statuses = (inspect.getdoc(module) or "").split("\n\n")[-1]
    parts = [f"# Command line: `nki-lab`\n\n{statuses}\n"]
    rows = [(f"[`nki-lab {name}`](#nki-lab-{name})", texts[name]) for name in commands.choices]
    parts.append(table(("command", "action"), rows))
    for name, command in commands.choices.items():
        usage = re.sub(r"\s+", " ", command.format_usage().removeprefix("usage: ")).strip()
        parts.append(f"## nki-lab {name}\n\n{command.description or ''}\n\n```text\n{_wrapped(usage)}\n```\n")
        options = [row for action in command._actions if (row := _option(action))]
        parts.append(table(("argument", "meaning"), options))
    return linked("\n".join(parts))


def _wrapped(usage: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(usage, 96, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))


def _option(action: argparse.Action) -> tuple[str, str] | None:
    """Return the row of an argument; None for help."""
    if isinstance(action, argparse._HelpAction):
        return None
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}"
        if action.choices
        else ""
        if action.nargs == 0
        else action.dest.upper()
    )
    name = ", ".join(f"`{option} {value}`".replace(" `", "`") for option in action.option_strings) or f"`{value}`"
    return name, (action.help or "") % {"default": action.default} if "%(" in (action.help or "") else action.help or ""
