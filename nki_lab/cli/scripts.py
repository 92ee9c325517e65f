"""Users' scripts: found, run as Python runs them, and their errors reported at the script's own line."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from nki_lab.diagnostic import NkiError, coded_error, diagnose, error_of
from nki_lab.source_files import read_source

USAGE: Final = 2
"""The exit status where the command line is wrong."""


def execute(script: Path, name: str, *, show: bool) -> dict[str, Any]:
    """Run a file as Python does; its errors come out as NkiErrors, with the traceback printed where asked for."""
    try:
        return runpy.run_path(str(script), run_name=name)
    except (NkiError, SystemExit, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        if error.filename is None:
            _require_text(script)
        if error.filename != str(script):
            raise _failed(error, script, show) from None
        from nki_lab.source.parsing import unparsable

        lines = tuple(read_source(script).decode(errors="replace").splitlines()) or ("",)
        raise error_of(unparsable(error, str(script), lines, in_bytes=True)) from None
    except Exception as error:  # noqa: BLE001 - whatever the script raises is shown
        if isinstance(error, IndexError) and isinstance(error.__cause__, NkiError):  # as simulate_kernel raises it
            if show:
                traceback.print_exception(error)
            raise error.__cause__ from None
        raise _failed(error, script, show) from None


def _require_text(script: Path) -> None:
    """Raise NKI101 for a file that no parser takes, at the character: Python says no place of a null character."""
    from nki_lab.source import syntax_facts

    syntax_facts(read_source(script), str(script), as_typed=True, once=True)


def _failed(error: Exception, script: Path, show: bool) -> NkiError:
    """Return the error of a script, at its line that led there."""
    from nki_lab.kernel_runtime.issue.source_location import site_at, span_of
    from nki_lab.source.callables import traceback_steps

    if show:
        traceback.print_exception(error)
    codes = ((step.tb_frame.f_code, step.tb_lasti) for step in traceback_steps(error))
    places = [item for item in codes if item[0].co_filename == str(script)]
    text = f": {error}" if str(error) else ""
    return error_of(
        diagnose(
            "NKI007",
            f"the script raised {type(error).__name__}{text}",
            span=span_of(site_at(*places[-1])) if places else None,
            help="" if show else "nki-lab run --traceback shows how it came there",
        )
    )


@contextlib.contextmanager
def import_folder(script: Path) -> Iterator[None]:
    """Have imports find the modules beside a script, as when Python runs it."""
    before, sys.path[0] = sys.path[0], str(script.resolve().parent)
    try:
        yield
    finally:
        sys.path[0] = before


def status_of(leaving: SystemExit) -> int:
    """The exit status of a script that left by itself; its message goes to the error stream."""
    if leaving.code is None or isinstance(leaving.code, int):
        return int(leaving.code or 0)
    print(leaving.code, file=sys.stderr)
    return 1


def readable(path: str) -> Path:
    """The file at `path`; NKI018 where there is none."""
    if not path:
        raise coded_error("NKI018", "the path of the file is empty", help="name a file: kernels.py")
    file = Path(path)
    try:
        if file.is_file():
            return file
        there = file.exists()
        reason = "is a folder" if file.is_dir() else "is no file" if there else "does not exist"
        names = [] if there or not file.parent.is_dir() else [item.name for item in file.parent.iterdir()]
    except OSError as error:
        raise coded_error("NKI018", f"{path}: {error.strerror}", help="check the path and its rights") from None
    from nki_lab.isa.spelling import did_you_mean

    remedies = {
        "is a folder": "name a file in it",
        "does not exist": f"check the path: it is looked for in {Path.cwd()}",
    }
    remedy = remedies.get(reason, "") if path != "-" else ""
    remedy = remedy or "save the text as a file: findings show its lines"
    raise coded_error("NKI018", f"{path} {reason}", help=did_you_mean(file.name, names) or remedy)
