"""Completions at a place of a text: which names can stand there, and what accepting one inserts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.enums import engine
from nki_lab.isa.spec import show_value
from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.kernel_runtime.interpreter.namespaces import BETA1
from nki_lab.kernel_runtime.interpreter.values import Namespace
from nki_lab.kernel_runtime.issue.known_arguments import attribute_problem
from nki_lab.kernel_runtime.issue.target import choice, tile_size
from nki_lab.query.completion import candidates
from nki_lab.query.completion.callees import Callee, Parameter, callee_of
from nki_lab.query.completion.candidates import Completion
from nki_lab.query.completion.cursor import Cursor, cursor_at, expression
from nki_lab.query.completion.scope_names import names_in_scope, spelled_module
from nki_lab.query.completion.surroundings import Surroundings, lock, surroundings
from nki_lab.query.completion.values import KnownTensor
from nki_lab.query.evaluation_cache import Examination
from nki_lab.query.navigation.workspace import Workspace
from nki_lab.source.module import NEWLINE
from nki_lab.source.trees import FUNCTIONS, first_line

MENTIONS: Final = re.compile(r"\b(?:nki|neuronxcc)\b")
"""Texts without these names do not use NKI."""

_FROM_MODULE: Final = re.compile(r"from\s+([\w.]*)$")
_FROM_NAMES: Final = re.compile(r"from\s+([\w.]+)\s+import\s*\(?(?:\s*\w+(?:\s+as\s+\w+)?\s*,)*\s*\w*$")
_IMPORT: Final = re.compile(r"import\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*([\w.]*)$")
_NEW_NAME: Final = re.compile(
    r"(?:\b(?:def|class|as|global|nonlocal|import|lambda)\s+|\bfor\s+(?:\w+\s*,\s*)*|\blambda\b[^:]*[,\s])\w*$"
)
"""Ends of statements where somebody makes up a name."""
_ROOTS: Final = ("nki", "neuronxcc")


@dataclass(frozen=True, slots=True)
class Completions:
    """The names that can stand at a place, and the stretch of its line that accepting one replaces.

    Columns are 1-based characters of the line: from `start` to `cursor`, or to `end` where the rest of the word at the
    cursor goes too. `calls` tells whether accepting a function may write its call.
    """

    line: int
    start: int
    cursor: int
    end: int
    word: str
    items: tuple[Completion, ...]
    calls: bool


def completions(
    source: str | Sequence[str],
    line: int,
    column: int,
    file: str = "",
    *,
    target: str | Arch | None = None,
    known: Examination | None = None,
    typed: str = "",
    files: Callable[[], Workspace] | None = None,
) -> Completions | None:
    """Return what can stand at a 1-based line and character column; None where that has nothing to do with NKI.

    `source` may be half typed, and may be the cells of a notebook, one below the other. `known` is an examination of
    the text as far as there is one. `typed` is the character that had the editor ask, if one had: a space, a bracket
    or a comma asks for what only such a place can have. `files` gives the files that the text may import functions of.
    """
    found = placed(source, line, column)
    if found is None:
        return None
    sources, part, cursor, indent = found
    if typed and not _is_asked(cursor, typed):
        return None
    arch = arch_of(target if target is not None else choice.outside())
    start = column - len(cursor.word)
    with lock:
        items = _imported(cursor, sources, arch)
        calls = False
        if items is None and _NEW_NAME.search(cursor.statement) is None:
            around = surroundings(sources, file or "<source>", part, cursor, indent, files)
            if around is not None and around.dialect:
                tensors = evaluated_names(around, line, known)
                items = tuple(_Completer(around, cursor, arch, tensors).items())
                calls = cursor.follows != "(" and not cursor.statement.lstrip("\ufeff \t").startswith("@")
    if not items:
        return None
    return Completions(line, start, column, column + len(cursor.rest), cursor.word, tuple(items), calls)


def _is_asked(cursor: Cursor, typed: str) -> bool:
    """Return whether a character typed begins something that there are completions for."""
    if typed == " ":
        return _ENDS.search(cursor.statement) is not None
    return typed == "." or (cursor.in_call and (typed != "=" or bool(cursor.calls[0].current.keyword)))


_ENDS: Final = re.compile(r"(?:^\s*|\s)(?:import|from) $|^\s*(?:import|from)\b.*, $")
"""The statements, up to the cursor, in which a space begins the name of a module, or of something in it."""


def placed(source: str | Sequence[str], line: int, column: int) -> tuple[tuple[str, ...], int, Cursor, int] | None:
    """Return the texts of a source, the number of the one at a place, the cursor in it, and the line's indentation."""
    texts = [source] if isinstance(source, str) else source
    sources = tuple(NEWLINE.sub("\n", text) if "\r" in text else text for text in texts)
    if not any(MENTIONS.search(text) for text in sources):
        return None
    inner, part = line - 1, 0
    while part < len(sources) - 1 and inner > sources[part].count("\n"):
        inner -= sources[part].count("\n") + 1
        part += 1
    text = sources[part]
    lines = text.split("\n")
    if not 0 <= inner < len(lines):
        return None
    column = min(max(column - 1, 0), len(lines[inner]))
    cursor = cursor_at(text, sum(map(len, lines[:inner])) + inner + column)
    if cursor is None:
        return None
    stripped = lines[inner].lstrip()
    return sources, part, cursor, len(lines[inner]) - len(stripped) if stripped else column


def evaluated_names(around: Surroundings, line: int, known: Examination | None) -> Mapping[str, Variable]:
    """Return what an evaluation says of the names that the function around binds above a line; values learn of it."""
    node = around.scope.node
    first, last = 1, 0
    if isinstance(node, FUNCTIONS):
        first, last = first_line(node), node.end_lineno or 0
    found: dict[str, Variable] = {}
    places: dict[str, tuple[int, int]] = {}
    for place, item in known.variables.items() if known is not None else ():
        if first <= place[0] <= last:
            before = places.get(item.name)
            if before is None or (before < place and place[0] < line) or before[0] >= line > place[0]:
                places[item.name], found[item.name] = place, item
    around.values.learn(found)
    return found


def _imported(cursor: Cursor, sources: Sequence[str], arch: Arch) -> tuple[Completion, ...] | None:
    """Return the modules and names that an import statement at the cursor may go on with; None where there is none."""
    statement = cursor.statement.lstrip("\ufeff \t\n")
    if found := _FROM_NAMES.match(statement):
        module = found[1]
        items = candidates.members_of(module, arch) if module.partition(".")[0] in _ROOTS else ()
        return tuple(replace(item, callee=None) for item in items)
    found = _FROM_MODULE.match(statement) or _IMPORT.match(statement)
    if found is None:
        return () if statement.startswith(("import ", "from ")) else None
    parent, dot, _ = found[1].rpartition(".")
    if dot and parent.partition(".")[0] not in _ROOTS:
        return ()
    word = found[1]
    if not dot and not (any(root.startswith(word) for root in _ROOTS) and (len(word) > 2 or _imports_nki(sources))):
        return ()
    return tuple(candidates.module_paths(parent, with_inner=statement.startswith("import")))


_IMPORTS_NKI: Final = re.compile(
    r"^\s*(?:import|from)\s+(?:nki|neuronxcc)\b|^%%nki\b|%load_ext\s+nki_lab", re.MULTILINE
)


def _imports_nki(sources: Sequence[str]) -> bool:
    return any(_IMPORTS_NKI.search(text) for text in sources)


class _Completer:
    """The names that can stand at one cursor."""

    def __init__(self, around: Surroundings, cursor: Cursor, arch: Arch, tensors: Mapping[str, Variable]) -> None:
        self._around = around
        self._cursor = cursor
        self._arch = arch
        self._tensors = tensors
        self._call = cursor.calls[0] if cursor.in_call else None
        self._callee: Callee | None = None
        self._parameter: Parameter | None = None
        if self._call is not None:
            function = expression(self._call.function)
            callee = None if function is None else callee_of(around, function)
            if callee is not None and (callee.is_kernel_code or around.in_kernel_code):
                self._callee = callee
        if self._call is not None and self._callee is not None:
            self._parameter = self._callee.parameter(self._call.before, self._call.current)

    def items(self) -> Iterator[Completion]:
        """Yield the names, each label once."""
        found = self._attributes(self._cursor.owner) if self._cursor.owner is not None else self._names()
        seen = set()
        for item in found:
            if item.label not in seen:
                seen.add(item.label)
                yield item

    # -- attributes ------------------------------------------------------------------------------------------------

    def _attributes(self, owner: str) -> Iterator[Completion]:
        """Yield the attributes of an expression, what the parameter at the cursor takes first."""
        node = expression(owner)
        value = None if node is None else self._around.values.of(node, self._around.scope)
        if isinstance(value, Namespace):
            members = candidates.members_of(value.name, self._arch)
            if self._parameter is not None and self._is_value:
                yield from map(self._judged, candidates.taken(members, self._parameter))
                yield from self._spelled_enumeration(members)
            yield from members
        elif isinstance(value, type) and issubclass(value, Enum):
            yield from map(self._judged, candidates.members_of_enumeration(value))
        elif value is tile_size:
            yield from candidates.members_of_tile_size(self._arch)
        elif isinstance(value, KnownTensor):
            for item in candidates.members_of_tensors(self._around.dialect):
                yield replace(item, note=self._of_tensor(item.label, value))

    def _spelled_enumeration(self, members: Iterable[Completion]) -> Iterator[Completion]:
        """Yield the enumeration that the parameter takes, among the names of a module."""
        wanted = self._parameter.enum if self._parameter is not None else None
        for item in members if wanted is not None else ():
            if item.value is wanted:
                yield replace(item, rank=candidates.EXPECTED)

    @staticmethod
    def _of_tensor(name: str, tensor: KnownTensor) -> str:
        """Return what is known of an attribute of a tensor."""
        if name == "shape" and tensor.shape is not None:
            return str(tensor.shape)
        if name == "dtype" and tensor.dtype is not None:
            return tensor.dtype.name
        return str(tensor.space.value) if name == "buffer" and tensor.space is not None else ""

    @property
    def _is_value(self) -> bool:
        """Return whether the name at the cursor is the whole of an argument, so far."""
        assert self._call is not None
        value = self._call.current.value
        return re.fullmatch(r"[\w.]*", value) is not None

    # -- names -------------------------------------------------------------------------------------------------------

    def _names(self) -> Iterator[Completion]:
        call, callee, parameter = self._call, self._callee, self._parameter
        if call is not None and callee is not None and self._is_value:
            if not call.current.keyword:
                yield from self._keywords(callee)
            if parameter is not None:
                yield from self._values(parameter)
        if self._around.in_kernel_code or callee is not None:
            yield from self._in_scope()

    def _keywords(self, callee: Callee) -> Iterator[Completion]:
        """Yield the arguments that a call does not have yet, the required ones first."""
        assert self._call is not None
        positional = sum(not item.keyword for item in self._call.before)
        for order, item in enumerate(callee.missing(self._call.given, positional)):
            rank = candidates.EXPECTED if item.required else candidates.OPTIONAL
            signature = f" {item.default}" if item.default else ""
            yield Completion(f"{item.name}=", "keyword", rank, order, signature, "" if item.required else "optional",
                             item.summary)  # fmt: skip

    def _values(self, parameter: Parameter) -> Iterator[Completion]:
        """Yield what a parameter takes, spelled as the text spells it."""
        kind = parameter.kind
        if kind == "bool":
            yield from (Completion(name, "constant", candidates.EXPECTED) for name in ("True", "False"))
        elif kind == "choice" and parameter.operand is not None:
            for order, item in enumerate(parameter.operand.choices):
                yield Completion(show_value(item), "constant", candidates.EXPECTED, order, summary=parameter.summary)
        elif kind == "enum" and parameter.enum is not None:
            yield from self._members(parameter.enum)
        elif kind in ("operator", "dtype", "buffer"):
            module = f"{BETA1}.language" if self._around.dialect == "beta1" else "nki.language"
            prefix = spelled_module(self._around, module)
            if prefix:
                for found in candidates.taken(candidates.members_of(module, self._arch), parameter):
                    yield replace(self._judged(found), label=f"{prefix}.{found.label}")

    def _members(self, kind: type[Enum]) -> Iterator[Completion]:
        module = f"{BETA1}.isa" if self._around.dialect == "beta1" else "nki.isa"
        prefix = spelled_module(self._around, module)
        for item in candidates.members_of_enumeration(kind) if prefix else ():
            yield replace(self._judged(item), label=f"{prefix}.{kind.__name__}.{item.label}")

    def _judged(self, item: Completion) -> Completion:
        """Return an operator or a member of an enumeration, marked where the instruction at the cursor refuses it."""
        instruction = self._callee.instruction if self._callee is not None else None
        operand = self._parameter.operand if self._parameter is not None else None
        if self._parameter is not None and self._parameter.enum is type(item.value):
            item = replace(item, rank=candidates.EXPECTED)
        is_judged = operand is not None and not operand.is_tensor and (item.operator or isinstance(item.value, Enum))
        if instruction is None or operand is None or not is_judged or item.rank == candidates.ABSENT:
            return item
        problem = attribute_problem(instruction, operand.name, item.value, self._arch)
        if isinstance(item.value, engine) and item.value is not engine.unknown:
            problem = problem or ("" if item.label in instruction.engines else f"{instruction.name} does not run there")
        if not problem:
            return item
        return replace(item, rank=candidates.DOUBTFUL, note=f"not for {operand.name}", summary=problem)

    def _in_scope(self) -> Iterator[Completion]:
        """Yield the text's own names; at an operand, the tensors that fit first."""
        operand = self._parameter.operand if self._parameter is not None else None
        wants_tensor = self._parameter is not None and self._parameter.kind == "tensor"
        for item in names_in_scope(self._around, self._tensors):
            value = item.value
            if not wants_tensor or not isinstance(value, KnownTensor):
                yield item
            elif operand is not None and value.space is not None and not _fits(value, operand.spaces):
                yield replace(item, rank=candidates.DOUBTFUL, note=f"{item.note}, not {' or '.join(operand.spaces)}")
            else:
                yield replace(item, rank=candidates.EXPECTED, order=100 + item.order)


def _fits(value: KnownTensor, spaces: Sequence[str]) -> bool:
    assert value.space is not None
    space = "hbm" if value.space.value.endswith("hbm") else value.space.value
    return not spaces or space in spaces
