"""How nki_lab talks to its users: spans, diagnostics, their rendering, and the errors that carry them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from nki_lab import codes
from nki_lab.source_files import line_of

Outcome = Literal["fault", "reject", "advice"]
Severity = Literal["error", "warning", "information", "hint"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text: 1-based lines and character columns, the end column exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def from_bytes(
        cls, file: str, line: int, column: int, end_line: int, end_column: int, *, source: str | None = None
    ) -> Span:
        """Span of a position given as Python's `ast` and code objects give it: 0-based UTF-8 byte columns."""
        # Python's lines: str.splitlines() also ends them at form feeds and other separators.
        lines = re.split(r"\r\n|\r|\n", source) if source is not None else None
        return cls(
            file,
            line,
            _characters(file, line, column, lines) + 1,
            end_line,
            _characters(file, end_line, end_column, lines) + 1,
        )


def _characters(file: str, line: int, column: int, lines: list[str] | None) -> int:
    if lines is None:
        text = line_of(file, line)
    else:
        text = lines[line - 1] if 0 < line <= len(lines) else ""
    if text.isascii():
        return column
    return len(text.encode()[:column].decode(errors="ignore"))


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a diagnostic: where the operand was made, where a register was set."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding about the user's kernel.

    `code` names the cause, never the finder. `limit` is the rule as declared, `help` what to do instead.
    `operand` is the argument the finding is about; its span, where known, is the diagnostic's span.
    """

    code: str
    message: str
    outcome: Outcome
    severity: Severity
    span: Span | None = None
    operand: str = ""
    note: str = ""
    limit: str = ""
    help: str = ""
    related: tuple[Related, ...] = field(default=())

    @property
    def file(self) -> str:
        return self.span.file if self.span else ""

    @property
    def line(self) -> int:
        return self.span.line if self.span else 0

    @property
    def column(self) -> int:
        return self.span.column if self.span else 0

    @property
    def end_line(self) -> int:
        return self.span.end_line if self.span else 0

    @property
    def end_column(self) -> int:
        return self.span.end_column if self.span else 0

    def as_dict(self) -> dict[str, Any]:
        """The diagnostic as plain data, in the field names of the public contract."""
        return {
            "code": self.code,
            "outcome": self.outcome,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "operand": self.operand,
            "limit": self.limit,
            "help": self.help,
            "related": [
                {
                    "message": item.message,
                    "file": item.span.file if item.span else "",
                    "line": item.span.line if item.span else 0,
                    "column": item.span.column if item.span else 0,
                }
                for item in self.related
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Diagnostic:
        """The diagnostic of plain data as `as_dict` gives it; what is missing there, or is something else, is empty.

        Of related places the ends are not known: they are taken to be one character.
        """

        def text(name: str) -> str:
            value = data.get(name)
            return value if isinstance(value, str) else ""

        related = data.get("related")
        return cls(
            code=text("code"),
            message=text("message"),
            outcome=cast("Outcome", text("outcome") if text("outcome") in get_args(Outcome) else "advice"),
            severity=cast("Severity", text("severity") if text("severity") in get_args(Severity) else "information"),
            span=_span_of(data),
            operand=text("operand"),
            limit=text("limit"),
            help=text("help"),
            related=tuple(
                Related(str(item.get("message", "")), _span_of(item))
                for item in (related if isinstance(related, list) else ())
                if isinstance(item, Mapping)
            ),
        )

    def __str__(self) -> str:
        return render(self)


def _span_of(data: Mapping[str, Any]) -> Span | None:
    file, line, column = data.get("file"), data.get("line"), data.get("column")
    if not (file and isinstance(file, str) and isinstance(line, int) and isinstance(column, int)):
        return None
    end_line, end_column = data.get("end_line", line), data.get("end_column", column + 1)
    known = isinstance(end_line, int) and isinstance(end_column, int)
    return Span(file, line, column, end_line if known else line, end_column if known else column + 1)


def diagnose(
    code: str,
    message: str,
    *,
    span: Span | None = None,
    operand: str = "",
    note: str = "",
    limit: str = "",
    help: str = "",  # noqa: A002 - the contract's name
    related: Iterable[Related] = (),
) -> Diagnostic:
    """A diagnostic whose outcome and severity come from its code's file."""
    facts = codes.get(code)
    return Diagnostic(
        code=code,
        message=message,
        outcome=cast("Outcome", facts.outcome),
        severity=cast("Severity", facts.severity),
        span=span,
        operand=operand,
        note=note,
        limit=limit,
        help=help,
        related=tuple(related),
    )


def render(diagnostic: Diagnostic, *, source_line: Callable[[str, int], str] | None = None) -> str:
    """The diagnostic as text: code and message, place, source line with carets, rule, help, where to read on."""
    out = [f"{diagnostic.code} {diagnostic.message}"]
    span = diagnostic.span
    width = len(str(span.line)) if span else 1
    pad = " " * width
    if span:
        out.append(f"{pad}--> {span.file}:{span.line}:{span.column}")
        text = (source_line or line_of)(span.file, span.line).rstrip("\r\n")
        if text.strip():
            shown = text.expandtabs(4)
            start = _cells(text[: span.column - 1].expandtabs(4))
            end_column = span.end_column if span.end_line == span.line else len(text) + 1
            stop = _cells(text[: end_column - 1].expandtabs(4))
            caret = "^" * max(1, stop - start)
            note = f" {diagnostic.note}" if diagnostic.note else ""
            out += [f"{pad} |", f"{span.line} | {shown}", f"{pad} | {' ' * start}{caret}{note}"]
        elif diagnostic.note:
            out.append(f"{pad} = note:  {diagnostic.note}")
    for item in diagnostic.related:
        where = f" ({item.span.file}:{item.span.line}:{item.span.column})" if item.span else ""
        out.append(f"{pad} = note:  {item.message}{where}")
    if diagnostic.limit:
        out.append(f"{pad} = limit: {diagnostic.limit}")
    if diagnostic.help:
        out.append(f"{pad} = help:  {diagnostic.help}")
    out.append(f"{pad} = more:  nki-lab explain {diagnostic.code}")
    return "\n".join(out)


def _cells(text: str) -> int:
    """How many columns of a terminal the text takes: East Asian and emoji characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


class NkiError(Exception):
    """A kernel was refused. `diagnostics` says why; each has a code, a place and a remedy.

    Raised as a subclass that is also the built-in exception NKI documents for the case (AssertionError, TypeError,
    IndexError, ...), so that code written against NKI keeps catching it.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n\n".join(render(item) for item in self.diagnostics))

    def __str__(self) -> str:
        return "\n\n".join(render(item) for item in self.diagnostics)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (_builtin_of(type(self)), self.diagnostics))


def _rebuild(base: type[Exception], diagnostics: tuple[Diagnostic, ...]) -> NkiError:
    return error_class(base)(diagnostics)


def _builtin_of(cls: type[NkiError]) -> type[Exception]:
    return next((base for base in cls.__mro__[1:] if base is not NkiError and issubclass(base, Exception)), Exception)


_CLASSES: dict[type[Exception], type[NkiError]] = {Exception: NkiError, NkiError: NkiError}


def error_class(base: type[Exception]) -> type[NkiError]:
    """The NkiError that is also a `base`."""
    made = _CLASSES.get(base)
    if made is None:
        made = cast("type[NkiError]", type(f"Nki{base.__name__}", (NkiError, base), {"__module__": __name__}))
        _CLASSES[base] = made
    return made


def error_of(*diagnostics: Diagnostic) -> NkiError:
    """The error that carries `diagnostics`, of the built-in kind that the first one's code names."""
    kind = codes.get(diagnostics[0].code).exception
    return error_class(kind)(diagnostics)


def coded_error(
    code: str,
    message: str,
    *,
    operand: str = "",
    note: str = "",
    limit: str = "",
    help: str = "",  # noqa: A002 - the contract's name
) -> NkiError:
    """Return the error of one new diagnostic."""
    return error_of(diagnose(code, message, operand=operand, note=note, limit=limit, help=help))
