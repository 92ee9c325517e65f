"""The settings of a project for its kernels, `[tool.nki-lab]` in the nearest pyproject.toml, and kept findings."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final

from nki_lab import codes
from nki_lab.call_records.projects import SETTING
from nki_lab.diagnostic import Diagnostic, NkiError, Span, coded_error, diagnose
from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.interpreter import ModuleFinder, ModuleSource, Signature, site_folders
from nki_lab.kernel_runtime.issue.arguments import TensorSpec, spec
from nki_lab.source.noqa import ALWAYS_REPORTED
from nki_lab.source_files import is_kind, read_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Findings are kept that begin with one of `select` (all, where it is empty) and with none of `ignore`.

    What keeps a file from being checked is left out by `ignore` only.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def of(self, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return the findings that are kept."""
        return [item for item in found if self.keeps(item.code)]

    def keeps(self, code: str) -> bool:
        """Return whether findings of a code are kept."""
        wanted = not self.select or code.startswith(self.select) or code in ALWAYS_REPORTED
        return wanted and not (self.ignore and code.startswith(self.ignore))


def selectors(names: Iterable[str]) -> tuple[str, ...]:
    """Return the codes and beginnings of codes that `names` mean: `NKI213`, `NKI2`, `moving-limit`, an alias, `ALL`.

    Raises ValueError for a name that no code has.
    """
    return tuple(_selector(name) for name in names)


def _selector(name: str) -> str:
    wanted = name.strip().upper()
    if wanted == "ALL":
        return "NKI"
    known = codes.find(name)
    if known is not None:
        return known.code
    if wanted and any(item.code.startswith(wanted) for item in codes.all_codes()):
        return wanted
    raise ValueError(name)


def split(texts: Sequence[str]) -> list[str]:
    """Return the names in texts such as `NKI1,NKI213`."""
    return [name for text in texts for part in text.split(",") if (name := part.strip())]


FILE: Final = "pyproject.toml"
TABLE: Final = "tool.nki-lab"
NO_VALUE: Final = "the value is neither a tensor nor a constant"
EXAMPLE: Final = "a tensor is dtype[size,size], for example bfloat16[128,512]"
_TENSOR: Final = re.compile(r"(?:(hbm|sbuf|psum)\s+)?(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
_LIKE_TENSOR: Final = re.compile(r"\s*(?:\w+\s+)?\w+\s*\[")
_LONG_INTEGER: Final = re.compile(r"\d[\d_]{600,}")  # Python lets nobody set a lower limit than 640 digits
_QUOTED_KEY: Final = re.compile(r"""\s*("(?:\\.|[^"\\])*\\(?:\\.|[^"\\])*")\s*=""")
_SHOWN: Final = 60
"""Most characters of a value that a message repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings of a project. `folder` is where they stand; without settings everything is empty.

    `shapes` has signatures of kernels and of the functions that they call, by `name`, or by `file.py::name` with the
    file's path from the folder. Modules that
    kernels import are looked for in `paths` too, and among the packages of the interpreter or environment `python`;
    both count from the folder. With `record_signatures`, runs keep how they call its functions, and checks use that.
    """

    folder: Path | None = None
    target: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    python: str | None = None
    record_signatures: bool = False

    def library(self, folder: str | Path = "") -> ModuleFinder:
        """Return the finder of modules that its kernels import; `folder` is that of a text without a file."""
        own = self.folder or Path()
        return ModuleFinder([own / item for item in self.paths], site_folders(self._interpreter), folder)

    @property
    def _interpreter(self) -> Path | None:
        if self.python is None:
            return None
        own = self.folder or Path()
        return own / os.path.expanduser(self.python)  # noqa: PTH111 - `~nobody` stays as it is, where Path raises

    def missing(self) -> Iterator[Diagnostic]:
        """Yield an NKI024 warning for each folder in `paths`, and for `python`, that is not there."""
        own = self.folder
        if own is None:
            return
        absent = [("paths", name) for name in self.paths if not is_kind((own / name).is_dir)]
        if self._interpreter is not None and not is_kind(self._interpreter.exists):
            absent.append(("python", str(self.python)))
        for key, name in absent:
            what = "no folder" if key == "paths" else "no interpreter and no environment"
            remedy = "correct the path, which counts from the folder of pyproject.toml, or remove it"
            found = _finding(own, key, f"{key} names {name}, which is {what}", remedy)
            yield replace(found, severity="warning", limit="modules that only it has are not found")

    def excludes(self, path: Path) -> bool:
        """Return whether a file or folder is left out: it, or a folder that it is in, matches one of `exclude`.

        A pattern without a slash is the name of a file or folder anywhere, another is a path from the folder.
        """
        inside = self._inside(path)
        if inside is None:
            return False
        places = [inside.as_posix(), *(item.as_posix() for item in inside.parents if item.name)]
        return any(
            fnmatch.fnmatchcase(place, pattern.rstrip("/")) or fnmatch.fnmatchcase(PurePath(place).name, pattern)
            for pattern in self.exclude
            for place in places
        )

    def signatures(self, path: Path) -> dict[str, tuple[Signature, ...]]:
        """Return the signatures of a file's kernels by their names."""
        inside = self._inside(path)
        found: dict[str, tuple[Signature, ...]] = {}
        for key, given in self.shapes.items():
            file, _, kernel = key.rpartition("::")
            if not file or (inside is not None and PurePath(file) == inside):
                found[kernel] = (*found.get(kernel, ()), *given)
        return found

    def _inside(self, path: Path) -> PurePath | None:
        if self.folder is None:
            return None
        try:
            return path.absolute().relative_to(self.folder.absolute())
        except ValueError:
            return None


NONE: Final = Configuration()


def library(
    *, folder: Path, paths: Iterable[str], given: Mapping[str, ModuleSource], arrays: Mapping[str, TensorSpec]
) -> ModuleFinder:
    """Return the modules of a notebook: those on its `paths`, and the texts of its cells, by the files that imports
    find.

    `arrays` are those of its variables.
    """
    return ModuleFinder([item for item in paths if Path(item).name not in _SITE], site_folders(), folder, given, arrays)


_SITE: Final = ("site-packages", "dist-packages")


def configuration_of(path: Path) -> Configuration:
    """Return the settings for a file or folder; NKI024 where they cannot be understood."""
    place = path.absolute()
    for folder in (place, *place.parents):
        file = folder / FILE
        if is_kind(file.is_file):
            found = read(file)
            if found is not None:
                return found
    return NONE


def read(file: Path) -> Configuration | None:
    """Return the settings in a pyproject.toml, None where it has none; NKI024 where they cannot be understood."""
    try:
        text = read_source(file).decode("utf-8")
        whole = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise NkiError([_wrong(str(file), 1, f"it cannot be read: {error}")]) from None
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        raise NkiError([_wrong(str(file), line, f"it is no TOML: {error}")]) from None
    except ValueError as error:
        long = max(_LONG_INTEGER.finditer(text), key=lambda item: len(item[0]), default=None)
        line = text.count("\n", 0, long.start()) + 1 if long else 1
        reason = _too_long("an integer", long[0]) if long else str(error)
        raise NkiError([_wrong(str(file), line, f"it cannot be read: {reason}")]) from None
    except RecursionError:
        raise NkiError([_wrong(str(file), 1, "it is nested too deeply")]) from None
    tool = whole.get("tool")
    table = tool.get("nki-lab") if isinstance(tool, dict) else None
    return None if table is None else _Reader(str(file), text).configuration(table)


def tensor_or_dtype(text: str) -> object:
    """Return the argument that `bfloat16[128,512]`, `sbuf bfloat16[128,512]` or `bfloat16` stands for; None for another
    text, NKI012 for a bad dtype and for what seems to be a tensor and is none.
    """
    tensor = _TENSOR.fullmatch(text.strip())
    if tensor:
        found = spec(tuple(whole_number(size, "a size") for size in tensor[3].split(",")), tensor[2])
        return found if tensor[1] in (None, "hbm") else replace(found, memory=tensor[1])
    if _LIKE_TENSOR.match(text) is not None:
        raise coded_error("NKI012", NO_VALUE, limit="a size is a whole number, 1 or more", help=EXAMPLE)
    return DTYPES[text].host if text in DTYPES else None


def whole_number(digits: str, what: str) -> int:
    """Return the number that digits stand for; NKI012 for one that is too long for Python to read."""
    try:
        return int(digits)
    except ValueError:
        raise coded_error("NKI012", _too_long(what, digits), help="write a smaller number") from None


def _too_long(what: str, digits: str) -> str:
    return f"{what} has {len(digits)} digits, at most {sys.get_int_max_str_digits()} can be read"


def shortened(text: str) -> str:
    """Return a text as a message names it: of a long one its beginning."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def misnamed(folder: Path, key: str, message: str, help: str) -> Diagnostic:  # noqa: A002 - as in `diagnose`
    """Return the NKI024 finding about a key of `shapes` in the settings of a folder."""
    found = _finding(folder, key, message, help)
    return replace(found, limit="a key of shapes is the name of a function, or file.py::name")


def _finding(folder: Path, key: str, message: str, remedy: str) -> Diagnostic:
    file = folder / FILE
    try:
        reader = _Reader(str(file), read_source(file).decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        reader = _Reader(str(file), "")
    reader.report(key, message, remedy)
    return reader.found[0]


class _Reader:
    """Reads one table; every mistake in it is reported."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._lines = text.split("\n")
        self.found: list[Diagnostic] = []

    def configuration(self, table: object) -> Configuration:
        takes: dict[str, Callable[[str, object], object]] = {
            "target": self._target,
            "select": self._codes,
            "ignore": self._codes,
            "exclude": self._texts,
            "shapes": self._shapes,
            "paths": self._texts,
            "python": self._text,
            SETTING: self._flag,
        }
        values: dict[str, Any] = {}
        if not isinstance(table, dict):
            self.report("nki-lab", f"{TABLE} is no table")
            table = {}
        for key, value in table.items():
            if key in takes:
                values[key.replace("-", "_")] = takes[key](key, value)
            else:
                near = did_you_mean(key, takes) or f"its keys are {', '.join(takes)}"
                self.report(key, f"{TABLE} has no {key}", near)
        if self.found:
            raise NkiError(self.found)
        return Configuration(folder=Path(self._file).parent, **values)

    def _target(self, key: str, value: object) -> str | None:
        text = self._text(key, value)
        try:
            return None if text is None else arch_of(text).target
        except NkiError as error:
            self.report(key, error.diagnostics[0].message, error.diagnostics[0].help)
            return None

    def _text(self, key: str, value: object) -> str | None:
        if isinstance(value, str) and value.strip():
            return value
        example = "trn2" if key == "target" else ".venv"
        self.report(key, f"{key} is no text", f'write {key} = "{example}"')
        return None

    def _flag(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            self.report(key, f"{key} is neither true nor false", f"write {key} = true")
        return value is True

    def _texts(self, key: str, value: object) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.report(key, f"{key} is no list of texts", f'write {key} = ["..."]')
        return ()

    def _codes(self, key: str, value: object) -> tuple[str, ...]:
        try:
            return selectors(self._texts(key, value))
        except ValueError as error:
            self.report(key, f"{key} has {str(error)!r}, which no code begins with", "a code is NKI213, a group NKI2")
            return ()

    def _shapes(self, key: str, value: object) -> dict[str, tuple[Signature, ...]]:
        if not isinstance(value, dict):
            self.report(key, f"{key} is no table", f"write [{TABLE}.shapes], and below it a line for each kernel")
            return {}
        return {kernel: tuple(self._signatures(kernel, item)) for kernel, item in value.items()}

    def _signatures(self, kernel: str, value: object) -> Iterable[Signature]:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield Signature(kwargs={name: self._argument(kernel, name, given) for name, given in item.items()})
            else:
                self.report(
                    kernel,
                    f"the shapes of {kernel} are no table of arguments",
                    f'write {kernel} = {{ a = "bfloat16[128,512]" }}',
                )

    def _argument(self, kernel: str, name: str, value: object) -> object:
        if isinstance(value, list):
            return tuple(self._argument(kernel, name, item) for item in value)
        if isinstance(value, str):
            try:
                found = tensor_or_dtype(value)
            except NkiError as error:
                first = error.diagnostics[0]
                self.report(kernel, f"{name} is {shortened(value)!r}: {first.message}", first.help)
                return value
            return value if found is None else found
        if not isinstance(value, bool | int | float):
            self.report(kernel, f"{name} is neither a tensor nor a constant", 'a tensor is "bfloat16[128,512]"')
        return value

    def _key(self, number: int) -> str | None:
        """Return the key in double quotes with which a line begins, without its escapes."""
        found = _QUOTED_KEY.match(self._lines[number])
        try:
            return None if found is None else next(iter(tomllib.loads(f"{found[1]} = 0")))
        except tomllib.TOMLDecodeError:
            return None

    def report(self, key: str, message: str, help: str = "") -> None:  # noqa: A002 - as in `diagnose`
        opening = next((i for i, line in enumerate(self._lines) if f"{TABLE}" in line), 0)
        named = re.compile(rf"""\s*\[?["']?(?:{re.escape(TABLE)}\.)?{re.escape(key)}["']?\s*[\]=.]""")
        numbers = (i for i in range(opening, len(self._lines)) if named.match(self._lines[i]) or self._key(i) == key)
        self.found.append(_wrong(self._file, next(numbers, opening) + 1, message, help, self._lines))


def _wrong(file: str, line: int, message: str, help: str = "", lines: Iterable[str] = ()) -> Diagnostic:  # noqa: A002
    end = len([*lines, *[""] * line][line - 1].rstrip("\r")) + 1
    return diagnose(
        "NKI024",
        message,
        span=Span(file, line, 1, line, max(end, 2)),
        help=help,
        limit="nothing below its folder is checked until it can be understood",
    )
