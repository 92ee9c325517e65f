"""Spans of source text, diagnostics, their rendering, and the errors that carry them."""

from __future__ import annotations

import builtins
import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, Literal, cast, get_args

from nki_lab import codes
from nki_lab.printable import on_one_line, printable
from nki_lab.source_files import line_of, shown_name

Outcome = Literal["fault", "reject", "advice"]
Severity = Literal["error", "warning", "information", "hint"]


@dataclass(frozen=True, slots=True)
class Span:
    """A region of source text: 1-based lines and character columns, the end column exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def from_bytes(
        cls, file: str, line: int, column: int, end_line: int, end_column: int, *, source: str | None = None
    ) -> Span:
        """Return the span of a position as Python's `ast` and code objects give it: 0-based UTF-8 byte columns."""
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
    return column if text.isascii() else character_at(text, column)


def character_at(text: str, column: int) -> int:
    """Return the character of a line that a 0-based UTF-8 byte column is in."""
    if text.isascii():
        return min(column, len(text))
    if len(text) <= _SHORT:
        data = text.encode("utf-8", "surrogatepass")
        return len(data[:column].translate(None, _LATER)) - (b"\x7f" < data[column : column + 1] < b"\xc0")
    return bisect_right(_ends(text), column)


@lru_cache(maxsize=16)
def _ends(text: str) -> array[int]:
    """Return the byte columns at which the characters of a long line end: many places of it may be asked for."""
    return array("L", accumulate(len(character.encode("utf-8", "surrogatepass")) for character in text))


_SHORT: Final = 1000
_LATER: Final = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that continue a character


_NOWHERE: Final = Span("", 0, 0, 0, 0)
_POSITION: Final = ("file", "line", "column")


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a diagnostic: where the operand was made, where a register was set."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding about the user's kernel.

    `code` names the cause, never the finder. `limit` is the rule as declared, `help` what to do instead.
    `operand` is the argument the finding is about; its span, where known, is the diagnostic's span. `measured` are two
    sizes that the finding compares, the actual one and the one that it is measured by. `gain` is the share of the
    kernel's time that doing what is advised saves, 0 where nobody has timed that. `places` are the other places of a
    finding that stands for several of one kind.
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
    related: tuple[Related, ...] = ()
    measured: tuple[int, int] | None = field(default=None, compare=False)
    gain: float = field(default=0.0, compare=False)
    places: tuple[Span, ...] = field(default=(), compare=False)

    @property
    def place(self) -> Span:
        """The span, or an empty one."""
        return self.span or _NOWHERE

    @property
    def file(self) -> str:
        return self.place.file

    @property
    def line(self) -> int:
        return self.place.line

    @property
    def column(self) -> int:
        return self.place.column

    @property
    def end_line(self) -> int:
        return self.place.end_line

    @property
    def end_column(self) -> int:
        return self.place.end_column

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnostic as plain data, in the field names of the public contract."""
        return {
            "code": self.code,
            "outcome": self.outcome,
            "severity": self.severity,
            "message": self.message,
            **asdict(self.place),
            "operand": self.operand,
            "limit": self.limit,
            "help": self.help,
            "related": [
                {"message": item.message, **{key: getattr(item.span or _NOWHERE, key) for key in _POSITION}}
                for item in self.related
            ],
            **({"gain": self.gain} if self.gain else {}),
            **(
                {"count": 1 + len(self.places), "places": [asdict(item) for item in self.places]} if self.places else {}
            ),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Diagnostic:
        """Return the diagnostic of plain data as `as_dict` gives it; missing and unsuitable values become empty.

        The ends of related places are not known: they are taken to be one character.
        """

        texts = {name: value for name, value in data.items() if isinstance(value, str)}
        outcome, severity = texts.get("outcome"), texts.get("severity")
        related = data.get("related")
        return cls(
            code=texts.get("code", ""),
            message=texts.get("message", ""),
            outcome=cast("Outcome", outcome if outcome in get_args(Outcome) else "advice"),
            severity=cast("Severity", severity if severity in get_args(Severity) else "information"),
            span=_span_of(data),
            operand=texts.get("operand", ""),
            limit=texts.get("limit", ""),
            help=texts.get("help", ""),
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
    measured: tuple[int, int] | None = None,
) -> Diagnostic:
    """Return a diagnostic whose outcome and severity come from its code's file."""
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
        measured=measured,
    )


def render(diagnostic: Diagnostic, *, source_line: Callable[[str, int], str] | None = None) -> str:
    """Return the diagnostic as text: code and message, place, source line with carets, rule, help, further reading.

    What would steer a terminal is written out, wherever it comes from.
    """
    out = [f"{diagnostic.code} {diagnostic.message}"]
    span = diagnostic.span
    width = len(str(span.line)) if span else 1
    pad = " " * width
    if span:
        out.append(f"{pad}--> {_file(span)}:{span.line}:{span.column}")
        text = (source_line or line_of)(span.file, span.line).rstrip("\r\n")
        if text.strip():
            line = on_one_line(text.expandtabs(4))
            start = _cells(on_one_line(text[: span.column - 1].expandtabs(4)))
            end_column = span.end_column if span.end_line == span.line else len(text) + 1
            stop = _cells(on_one_line(text[: end_column - 1].expandtabs(4)))
            caret = "^" * max(1, stop - start)
            note = f" {diagnostic.note}" if diagnostic.note else ""
            out += [f"{pad} |", f"{span.line} | {line}", f"{pad} | {' ' * start}{caret}{note}"]
        elif diagnostic.note:
            out.append(f"{pad} = note:  {diagnostic.note}")
    for item in shortened(diagnostic.related):
        where = f" ({_file(item.span)}:{item.span.line}:{item.span.column})" if item.span else ""
        out.append(f"{pad} = note:  {item.message}{where}")
    if diagnostic.places:
        out.append(f"{pad} = note:  {_elsewhere(diagnostic.places)}")
    if diagnostic.limit:
        out.append(f"{pad} = limit: {diagnostic.limit}")
    if diagnostic.help:
        out.append(f"{pad} = help:  {diagnostic.help}")
    out.append(f"{pad} = more:  nki-lab explain {diagnostic.code}")
    return printable("\n".join(out))


def _file(span: Span) -> str:
    """Return the file of a place as users know it."""
    return on_one_line(shown_name(span.file))


_MOST_LINES: Final = 12
"""Most lines, and most other places, that a finding names."""


def shortened(related: Sequence[Related]) -> Sequence[Related]:
    """Return the related places that readers are told of: the first ones, and how many more there are."""
    if len(related) <= _MOST_LINES:
        return related
    more = len(related) - _MOST_LINES
    return [*related[:_MOST_LINES], Related(f"and {more:,} more such place{'s' * (more > 1)}")]


def _elsewhere(places: tuple[Span, ...]) -> str:
    """Say at how many other places a finding holds, and on which lines."""
    lines = sorted({item.line for item in places})
    shown = ", ".join(map(str, lines[:_MOST_LINES]))
    more = f" and {len(lines) - _MOST_LINES} more" * (len(lines) > _MOST_LINES)
    return f"at {len(places) + 1} places, also on line{'s' * (len(lines) > 1)} {shown}{more}"


def _cells(text: str) -> int:
    """Return the terminal columns that the text takes: East Asian and emoji characters two, combining marks none."""
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
        super().__init__(str(self))

    def __str__(self) -> str:
        return "\n\n".join(render(item) for item in self.diagnostics)

    def __reduce__(self) -> tuple[Any, ...]:
        base = _kind_of(type(self))
        return (_rebuild, (base.__name__ if base.__module__ == "builtins" else base, self.diagnostics))


def _rebuild(base: str | type[Exception], diagnostics: tuple[Diagnostic, ...]) -> NkiError:
    """Return an error again. Built-in kinds come by name: old protocols of pickle take some of them for others."""
    return error_class(getattr(builtins, base) if isinstance(base, str) else base)(diagnostics)


def _kind_of(cls: type[NkiError]) -> type[Exception]:
    return next((base for base in cls.__mro__[1:] if base is not NkiError and issubclass(base, Exception)), Exception)


_CLASSES: dict[type[Exception], type[NkiError]] = {Exception: NkiError, NkiError: NkiError}


def error_class(base: type[Exception]) -> type[NkiError]:
    """Return the NkiError that is also a `base`."""
    if base not in _CLASSES:
        both = type(f"Nki{base.__name__}", (NkiError, base), {"__module__": __name__})
        _CLASSES[base] = cast("type[NkiError]", both)
    return _CLASSES[base]


def error_of(*diagnostics: Diagnostic) -> NkiError:
    """Return the error that carries `diagnostics`, of the built-in kind that the first one's code names."""
    return error_class(codes.get(diagnostics[0].code).exception)(diagnostics)


def coded_error(
    code: str,
    message: str,
    *,
    operand: str = "",
    note: str = "",
    limit: str = "",
    help: str = "",  # noqa: A002 - the contract's name
    measured: tuple[int, int] | None = None,
) -> NkiError:
    """Return the error of one new diagnostic."""
    return error_of(diagnose(code, message, operand=operand, note=note, limit=limit, help=help, measured=measured))
