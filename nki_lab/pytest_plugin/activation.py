"""Activation of the simulator for a session of tests, and the choices of single tests."""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import AbstractContextManager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import pytest

SIMULATOR_VARIABLE: Final = "NKI_SIMULATOR"
_MARKER: Final = "nki"
_MARKED: Final = ("target", "precise")
_TRUE: Final = ("1", "true", "on", "yes")
_FALSE: Final = ("", "0", "false", "off", "no")


@dataclass(slots=True)
class _Session:
    """The simulator of a session: whether it was activated, what the header says, and variables as they were."""

    active: bool
    text: str
    before: dict[str, str | None]


_KEY: Final = pytest.StashKey[_Session]()


def begin(config: pytest.Config, options: Namespace) -> None:
    """Activate the simulator where option or environment ask for it; pytest.UsageError says why that is not possible.

    Asking again changes nothing.
    """
    if _KEY in config.stash:
        return
    target: str | None = options.nki_target
    force: bool = options.nki_force
    asked = _truth(SIMULATOR_VARIABLE, os.environ.get(SIMULATOR_VARIABLE, ""))
    if not (target or force or asked):
        return
    from nki_lab import dialects
    from nki_lab.diagnostic import NkiError
    from nki_lab.dialects.activation import real_packages
    from nki_lab.dialects.environment import resolve_target

    was_active = dialects.is_active()
    real = {} if force else real_packages()
    if real and not target:  # NKI_SIMULATOR=1 is the installed package's own variable too
        text = f"nki-lab: NKI_SIMULATOR=1 is left to the installed {', '.join(real)}; --nki-force takes nki_lab"
        config.stash[_KEY] = _Session(False, text, {})
        return
    session = config.stash[_KEY] = _Session(not was_active, "", {})
    try:
        _set_variables(session, config, target)
        dialects.activate(force=force)
        arch = resolve_target()
    except NkiError as error:
        end(config)
        text = str(error).replace("activate(force=True) simulates in this process", "--nki-force simulates")
        raise pytest.UsageError(text) from None
    session.text = f"nki-lab: kernels run on the simulator, for {arch.target}"


def _set_variables(session: _Session, config: pytest.Config, target: str | None) -> None:
    """Set what the session chooses, for subprocesses too: the option before the environment before the project."""
    from nki_lab.dialects.environment import PRECISE_VARIABLE, TARGET_VARIABLE, resolve_target

    precise = config.getini("nki_precise")
    named = target or os.environ.get(TARGET_VARIABLE) or config.getini("nki_target")
    chosen = {
        TARGET_VARIABLE: resolve_target(named).target if named else "",
        PRECISE_VARIABLE: os.environ.get(PRECISE_VARIABLE)
        or ("" if not precise else str(int(_truth("nki_precise", precise)))),
    }
    for name, value in chosen.items():
        if value:
            session.before[name] = os.environ.get(name)
            os.environ[name] = value


def end(config: pytest.Config) -> None:
    """Take away what `begin` made, for a later session of the same process."""
    session = config.stash.get(_KEY, None)
    if session is None:
        return
    del config.stash[_KEY]
    for name, value in session.before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if session.active:
        from nki_lab.dialects import deactivate

        deactivate()


def described(config: pytest.Config) -> str | None:
    """Return the line of the session's header; None where nothing was asked for."""
    session = config.stash.get(_KEY, None)
    return session.text if session is not None and session.text else None


def _truth(name: str, value: str) -> bool:
    text = value.strip().casefold()
    if text not in (*_TRUE, *_FALSE):
        raise pytest.UsageError(f"{name} is {value!r}: 1 or 0 is meant")
    return text in _TRUE


# -- single tests ------------------------------------------------------------------------------------------------------


def marked(item: pytest.Item) -> dict[str, Any]:
    """Return what the markers of a test choose, the nearest first; pytest.UsageError for what they cannot say."""
    found: dict[str, Any] = {}
    for mark in item.iter_markers(_MARKER):
        where = f"{item.nodeid}: pytest.mark.{_MARKER}"
        if mark.args:
            raise pytest.UsageError(f"{where} takes keywords: {_MARKER}(target={mark.args[0]!r})")
        for name, value in mark.kwargs.items():
            if name not in _MARKED:
                near = get_close_matches(name, _MARKED, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise pytest.UsageError(f"{where} has no {name}, only {' and '.join(_MARKED)}{hint}")
            if name == "precise" and not (value is None or isinstance(value, bool)):
                raise pytest.UsageError(f"{where}: precise is {value!r}, True or False is meant")
            found.setdefault(name, value)
    if found.get("target") is not None:
        from nki_lab.diagnostic import NkiError
        from nki_lab.dialects.environment import resolve_target

        try:
            resolve_target(found["target"])
        except NkiError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    return found


def chosen(marks: dict[str, Any]) -> AbstractContextManager[Any]:
    """While this lasts, kernels run as the markers say."""
    from nki_lab.dialects.environment import chosen as chosen_options

    return chosen_options(**marks)
