"""Sites of a program in the source: the frame and bytecode offset of a call, and the place that a finding is about."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.ir import Program, Site
from nki_lab.kernel_runtime.tensor import Buffer
from nki_lab.source.checks import FailedCheck
from nki_lab.source.code_table import CodeTable
from nki_lab.source.module import argument_of, module_at
from nki_lab.source.trees import Extent, extent


def finding_at(
    program: Program,
    op: int,
    code: str,
    message: str,
    *,
    operand: str = "",
    note: str = "",
    limit: str = "",
    remedy: str = "",
    related: Iterable[Related] = (),
) -> Diagnostic:
    """Return a diagnostic at an op, whose message begins with the name of its instruction."""
    item = diagnose(
        code,
        f"{instruction_name(program, op)}: {message}",
        operand=operand,
        note=note,
        limit=limit,
        help=remedy,
        related=related,
    )
    return placed(item, program.site_of(op))


def instruction_name(program: Program, op: int) -> str:
    """Return the name of an op's instruction."""
    return program.variant_of(op).instruction.name


def span_at(program: Program, site: int) -> Span | None:
    """Return the span of a numbered site; None for -1, and where the source is unknown."""
    found = program.sites[site] if site >= 0 else None
    return span_of(found) if found is not None and found.file else None


def origin(program: Program, buffer: Buffer, text: str) -> list[Related]:
    """Return `text` at the place in the source where a tensor is made, nothing where that is unknown."""
    span = span_at(program, buffer.site)
    return [Related(text, span)] if span is not None else []


def title(program: Program, buffer: Buffer) -> str:
    """Return a tensor's name in messages.

    That is the name it was given, else the one that its allocation is assigned to, else its shape and dtype.
    """
    name = buffer.name or _assigned(program, buffer.site)
    return f"{name!r}" if name else f"a {buffer.shape} {buffer.dtype.name} tensor"


def _assigned(program: Program, site: int) -> str:
    """Return the name that the call at a numbered site is assigned to; "" where that is none."""
    found = program.sites[site] if site >= 0 else None
    module = module_at(found.file) if found is not None and found.file else None
    return "" if found is None or module is None else module.assigned_at(_extent(found))


_ours: Final[CodeTable[tuple[bool, bool]]] = CodeTable()


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of nki_lab, as against the user's."""
    known = _ours.get(id(frame.f_code))
    return (_judged(frame) if known is None else known)[0]


def _judged(frame: FrameType) -> tuple[bool, bool]:
    """Return whether a frame is nki_lab's, and whether it is no user's: frameworks stand between users and us."""
    name = frame.f_globals.get("__name__", "")
    # contextlib: what stands between a function of ours and its caller where a context decorates it.
    ours = isinstance(name, str) and (name in ("nki_lab", "contextlib") or name.startswith("nki_lab."))
    between = isinstance(name, str) and name.partition(".")[0] in ("jax", "torch")
    return _ours.enter(frame.f_code, (ours, ours or between))


def user_frame(depth: int = 1) -> FrameType | None:
    """Return the innermost frame of user code, seen from `depth` frames above this call."""
    return outside(sys._getframe(depth))


def outside(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of user code, `frame` or one that led to it."""
    ours = _ours
    while frame is not None:
        known = ours.get(id(frame.f_code)) or _judged(frame)
        if not known[1]:
            return frame
        frame = frame.f_back
    return None


_MOST_CODES: Final = 256  # code objects whose positions are at hand: they are read off one after the other

FUNCTIONS: Final[dict[str, Callable[..., object]]] = {}
"""The functions of nki.language by name, entered by the module that lists them: diagnostics name their parameters."""


_positions: Final[CodeTable[list[Any]]] = CodeTable(_MOST_CODES)


def site_at(code: CodeType, offset: int) -> Site:
    """Return the source stretch of the instruction at byte `offset` of a code object."""
    known = _positions.get(id(code))
    if known is None:
        known = _positions.enter(code, list(code.co_positions()))
    line, end_line, column, end_column = known[offset // 2] if offset >= 0 else (code.co_firstlineno,) * 2 + (0, 0)
    line = line or code.co_firstlineno
    return Site(code.co_filename, line, column or 0, end_line or line, end_column or 0, code.co_qualname)


def span_of(site: Site) -> Span:
    """Return the span that users see."""
    return Span.from_bytes(site.file, site.line, site.column, site.end_line, site.end_column)


def placed(diagnostic: Diagnostic, site: Site) -> Diagnostic:
    """Return the diagnostic with its span: the operand's expression in the call at `site`, else the call itself.

    A site that is a whole `if`, `while`, `for` or `with` statement, as Python places a failing truth test or iteration,
    becomes its condition.
    """
    if diagnostic.span is not None or not site.file:
        return diagnostic
    if not diagnostic.operand:
        module = module_at(site.file) if site.end_line > site.line else None
        return replace(
            diagnostic,
            span=_span(site, None if module is None else module.calls_on(site.line).headers.get(_extent(site))),
        )
    call = _call_at(site)
    if call is None:
        return replace(diagnostic, span=_span(site, None))
    return placed_in(diagnostic, call, lambda found: _span(site, found))


def placed_in(diagnostic: Diagnostic, call: ast.Call, span: Callable[[ast.expr | None], Span]) -> Diagnostic:
    """Return the diagnostic with the span of its operand's expression in `call`; `span(None)` is that of the call."""
    found = argument_of(call, diagnostic.operand, _parameters(call, diagnostic)) if diagnostic.operand else None
    if diagnostic.code == "NKI002" and (keyword := _keyword(call, diagnostic.operand)) is not None:
        found = keyword
    note = diagnostic.note
    if isinstance(found, (ast.Name, ast.Attribute)) and note.startswith(f"{diagnostic.operand}: "):
        note = f"{ast.unparse(found)}: {note.removeprefix(f'{diagnostic.operand}: ')}"
    return replace(diagnostic, span=span(found), note=note)


def _keyword(call: ast.Call, name: str) -> ast.Name | None:
    """Return the keyword of an argument itself, `scr` of `scr=x`, as an expression in its place; None without one."""
    for item in call.keywords:
        if item.arg == name:
            end = item.col_offset + len(name.encode())
            place = {"lineno": item.lineno, "end_lineno": item.lineno, "end_col_offset": end}
            return ast.Name(name, ctx=ast.Load(), col_offset=item.col_offset, **place)
    return None


def of_allocation(item: Diagnostic, name: str, use: Span | None) -> Diagnostic:
    """Return a finding about all of a tensor that is used, as one about its shape where it is allocated.

    `item` is about too many partitions (NKI204), and is without a place as yet.
    """
    partitions, most = item.measured or (0, 0)
    instruction = item.message.partition(":")[0]
    return replace(
        item,
        message=f"{name} has {partitions} partitions, the memory has {most}",
        operand="shape",
        note="",
        related=(*item.related, Related(f"{instruction} uses all of it as {item.operand}", use)),
    )


def handed_over(item: Diagnostic, raised: Span, file: str, check: FailedCheck) -> Diagnostic:
    """Return a finding that a checking function raised, as one about the condition in the call of it, in `file`."""
    return replace(
        item,
        span=Span.from_bytes(file, *check.place),
        limit=check.text,
        related=(Related("it is raised here", raised), *item.related),
    )


def _span(site: Site, found: ast.expr | None) -> Span:
    """Return the span of `found`, of the whole site without one."""
    return Span.from_bytes(site.file, *(_extent(site) if found is None else extent(found)))


def _parameters(call: ast.Call, diagnostic: Diagnostic) -> tuple[str, ...]:
    """Return the parameters of an instruction or a function of nki.language, by its name in the call.

    Under another name it counts as the instruction that the message begins with.
    """
    func = call.func
    called = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if called in TABLE:
        return tuple(TABLE[called].arguments)
    function = FUNCTIONS.get(called)
    if function is not None:
        return tuple(inspect.signature(function).parameters)
    named = diagnostic.message.split(":", 1)[0]
    return tuple(TABLE[named].arguments) if named in TABLE else ()


def _call_at(site: Site) -> ast.Call | None:
    module = module_at(site.file)
    if module is None:
        return None
    calls = module.calls_on(site.line)
    found = calls.calls.get(_extent(site))
    return calls.first.get(site.line) if found is None and not site.end_column else found


def _extent(site: Site) -> Extent:
    return site.line, site.column, site.end_line, site.end_column
