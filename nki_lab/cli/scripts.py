"""Users' scripts: found, run as Python runs them, and their errors said at the script's own line."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from nki_lab.diagnostic import Diagnostic, NkiError, diagnose, error_of


def execute(script: Path, name: str, *, show: bool) -> dict[str, Any]:
    """Run a file as Python does; its errors come out as NkiErrors, with the traceback printed where asked for."""
    try:
        return runpy.run_path(str(script), run_name=name)
    except (NkiError, SystemExit, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        if error.filename != str(script):
            raise error_of(_failed(error, script, show)) from None
        from nki_lab.source.parsing import unparsable

        lines = tuple(script.read_text(encoding="utf-8", errors="replace").splitlines()) or ("",)
        raise error_of(unparsable(error, str(script), lines, in_bytes=True)) from None
    except Exception as error:  # noqa: BLE001 - whatever the script raises is shown
        raise error_of(_failed(error, script, show)) from None


def _failed(error: Exception, script: Path, show: bool) -> Diagnostic:
    """What a script raised by itself, at the line in the script that led there."""
    from nki_lab.kernel_runtime.issue.source_location import site_at, span_of

    if show:
        traceback.print_exception(error)
    found: TracebackType | None = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(script):
            found = step
        step = step.tb_next
    span = None if found is None else span_of(site_at(found.tb_frame.f_code, found.tb_lasti))
    text = f": {error}" if str(error) else ""
    return diagnose("NKI007", f"the script raised {type(error).__name__}{text}", span=span,
                    help="" if show else "nki-lab run --traceback shows how it came there")  # fmt: skip


def status_of(leaving: SystemExit) -> int:
    """The exit status of a script that left by itself; its message goes to the error stream."""
    if leaving.code is None or isinstance(leaving.code, int):
        return int(leaving.code or 0)
    print(leaving.code, file=sys.stderr)
    return 1


def readable(path: str) -> Path:
    """The file at `path`; NKI018 where there is none."""
    file = Path(path)
    if file.is_file():
        return file
    reason = "is a folder" if file.is_dir() else "does not exist"
    near = ""
    if not file.exists() and file.parent.is_dir():
        from nki_lab.isa.spelling import did_you_mean

        near = did_you_mean(file.name, (item.name for item in file.parent.iterdir()))
    raise error_of(diagnose("NKI018", f"{path} {reason}", help=near))
