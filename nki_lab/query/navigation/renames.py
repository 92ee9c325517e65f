"""Renaming: edits that keep the meaning of a program, or the reason why there are none.

After the edits every changed text is read again: each mention must be bound by the scope that bound it before.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NoReturn

from nki_lab.diagnostic import NkiError, Span, diagnose, error_of
from nki_lab.query.navigation.decorators import keeps_keywords
from nki_lab.query.navigation.meaning import Bound, Meaning, Module, Outside, Resolver
from nki_lab.query.navigation.reading import Mention, Reading
from nki_lab.query.navigation.references import carrier, importers_of_all, spread
from nki_lab.query.navigation.renamed import applied, difference
from nki_lab.source.name_places import ending, imported_place, keyword_place
from nki_lab.source.occurrences import NameScope, Occurrence

Edits = dict[Span, str]
"""New texts by the places that they stand in for."""

_OF_NKI: Final = ("nki", "neuronxcc")


def refuse(message: str, remedy: str, span: Span | None = None) -> NoReturn:
    """Raise the error of an NKI033 diagnostic."""
    raise _refusal(message, remedy, span)


def _refusal(message: str, remedy: str, span: Span | None) -> NkiError:
    return error_of(diagnose("NKI033", message, span=span, help=remedy))


def root_of(resolver: Resolver, reading: Reading, mention: Mention) -> Bound:
    """Return the name that a rename at a place is about: that which an import takes over, under the same name.

    Raises NKI033 for names that are not bound in the workspace, and for members of classes.
    """
    named = mention.named
    name = named.name if isinstance(named, Occurrence) else ""
    if isinstance(named, ast.ImportFrom | ast.Import) or (isinstance(named, ast.alias) and mention.parts > 1):
        refuse("a module is named by its file", "rename the file and the imports of it", mention.span)
    meaning = resolver.mention(reading, mention)
    if meaning is None and isinstance(named, ast.Attribute | ast.keyword):
        what = "attribute" if isinstance(named, ast.Attribute) else "keyword argument"
        remedy = "rename where it is bound, or annotate the object with its class"
        refuse(f"what this {what} belongs to is not known here", remedy, mention.span)
    for _ in range(16):
        if not isinstance(meaning, Bound):
            break
        _check_own(resolver, meaning, mention.span)
        plain = [
            item
            for item in meaning.scope.bindings(meaning.name)
            if isinstance(item.node, ast.alias) and item.node.asname is None
        ]
        if not plain:
            return meaning
        name = meaning.name
        meaning = resolver.imported(meaning.reading, plain[0])
    raise _outside(meaning, name, mention.span)


def _outside(meaning: Meaning | None, name: str, span: Span) -> NkiError:
    """Return the error of a name that no file of the workspace binds."""
    if isinstance(meaning, Module):
        remedy = "rename the file and the imports of it, or import it as another name"
        return _refusal("a module is named by its file", remedy, span)
    if isinstance(meaning, Outside):
        top, _, last = meaning.dotted.partition(".")
        if top == "builtins":
            return _refusal(f"{last} is a builtin of Python", "rename a name that your files bind", span)
        owner = "NKI" if top in _OF_NKI else top
        return _refusal(f"{meaning.dotted} is a name of {owner}", "import it as another name: `import a as b`", span)
    return _refusal(f"no file of the workspace binds {name or 'this name'}", "rename a name that your files bind", span)


def _check_own(resolver: Resolver, meaning: Bound, span: Span) -> None:
    file = meaning.reading.file
    if not resolver.workspace.is_own(file):
        refuse(f"{meaning.name} is bound in {file}, outside of the workspace", "import it as another name", span)
    if meaning.scope.kind == "class":
        refuse(
            f"{meaning.name} is a member of the class {getattr(meaning.scope.node, 'name', '')}, and not all objects"
            " that have it are known",
            "rename it by hand, where the class and its objects are used",
            span,
        )


def checked_name(new: str) -> str:
    """Return the new name as Python reads it; NKI033 where it cannot be a name, or means something already."""
    name = unicodedata.normalize("NFKC", new.strip())
    remedy = "choose a name of letters, digits and underscores that does not begin with a digit"
    if not name.isidentifier():
        refuse(f"{new!r} is no name in Python", remedy)
    if keyword.iskeyword(name):
        refuse(f"{name} is a keyword of Python", "choose another name")
    if hasattr(builtins, name):
        refuse(f"{name} is a builtin of Python, which the new name would hide", "choose another name")
    return name


def rename(resolver: Resolver, reading: Reading, mention: Mention, new: str) -> dict[str, Edits]:
    """Return the edits by file that rename what a place mentions; NKI033 where the program would mean another thing."""
    root, name = root_of(resolver, reading, mention), checked_name(new)
    if name == root.name:
        return {}
    renaming = _Renaming(resolver, root, name)
    renaming.collect()
    edits = renaming.by_file()
    for file, changes in edits.items():
        renaming.verify(file, changes)
    return edits


class _Renaming:
    """One rename: the bindings that get the new name, and the edits so far."""

    def __init__(self, resolver: Resolver, root: Bound, new: str) -> None:
        self._resolver = resolver
        self._root = root
        self._old, self._new = root.name, new
        self._keys: set[object] = {root.key}
        self._pending = [root]
        self._readings: dict[str, Reading] = {root.reading.file: root.reading}
        self._edits: Edits = {}

    def collect(self) -> None:
        """Find all places."""
        root = self._root
        others = spread(self._resolver, root.reading, root) if root.scope.kind == "module" else []
        users = [(item, self._from_elsewhere(item)) for item in others]
        self._readings |= {item.file: item for item in others if item.file not in self._readings}
        done = 0
        while done < len(self._pending):
            bound = self._pending[done]
            done += 1
            self._check_collision(bound)
            self._check_classes(bound)
            if bound.scope.kind == "module":
                self._check_stars(bound)
            for _, item in bound.scope.mentions(self._old):
                self._mention(bound.reading, item)
            for reading, found in users:
                for scope, node in found.get(bound.key, ()):
                    self._user(reading, scope, node)
        if any(item.role == "parameter" for item in self._root.scope.bindings(self._old)):
            self._keywords()

    def by_file(self) -> dict[str, Edits]:
        """Return the edits by file."""
        found: dict[str, Edits] = {}
        for span, text in self._edits.items():
            found.setdefault(span.file, {})[span] = text
        return found

    def _put(self, reading: Reading, span: Span | None, node: ast.AST, text: str = "") -> None:
        if span is None:
            line = getattr(node, "lineno", 1)
            remedy = f"write {self._old} in one plain piece there"
            refuse(
                f"the place of {self._old} on line {line} is not found", remedy, Span(reading.file, line, 1, line, 2)
            )
        if not self._resolver.workspace.is_own(reading.file):
            refuse(f"{self._old} is also used in {reading.file}, outside of the workspace", "choose another name")
        self._edits[span] = text or self._new

    def _mention(self, reading: Reading, item: Occurrence) -> None:
        alias = item.node
        if isinstance(alias, ast.alias) and alias.asname is None:
            target = self._resolver.imported(reading, item)
            taken = target is not None and target.key in self._keys
            self._put(
                reading, imported_place(reading.facts, alias), alias, "" if taken else f"{alias.name} as {self._new}"
            )
            return
        spans: list[Span | None] = [*reading.spans(item)]
        for span in spans or [None]:
            self._put(reading, span, item.node)

    def _from_elsewhere(self, reading: Reading) -> dict[object, list[tuple[NameScope, ast.AST]]]:
        """Return the imports, attributes and names of a file with the old name, by the keys of what they mean."""
        resolver, old = self._resolver, self._old
        found: dict[object, list[tuple[NameScope, ast.AST]]] = {}
        for scope in reading.scope.subtree():
            for item in scope.imports:
                if getattr(item.node, "name", "") == old and isinstance(item.owner, ast.ImportFrom):
                    target = resolver.imported(reading, item)
                    found.setdefault(target and target.key, []).append((scope, item.node))
            for attribute in scope.attributes.get(old, ()):
                target = resolver.expression(reading, scope, attribute)
                found.setdefault(target and target.key, []).append((scope, attribute))
            if scope.binder(old) is None:
                target = resolver.local(reading, scope, old)
                nodes = [item.node for item in scope.occurrences.get(old, ())]
                found.setdefault(target and target.key, []).extend((scope, node) for node in nodes)
        return found

    def _user(self, reading: Reading, scope: NameScope, node: ast.AST) -> None:
        """Add a place of another file; a name that it imports unchanged is renamed there too."""
        if isinstance(node, ast.alias) and node.asname is None:
            other = Bound(reading, scope.binder(self._old) or scope, self._old)
            if other.key not in self._keys:
                self._keys.add(other.key)
                self._pending.append(other)
        elif isinstance(node, ast.alias):
            self._put(reading, imported_place(reading.facts, node), node)
        elif isinstance(node, ast.Attribute):
            self._put(reading, ending(reading.facts, node, self._old), node)
        else:
            self._mention(reading, Occurrence(self._old, node, "read"))

    # -- parameters ------------------------------------------------------------------------------------------------

    def _keywords(self) -> None:
        """Add the keyword arguments of a parameter; refuse where a call may name it that is not understood."""
        root, old = self._root, self._old
        name = getattr(root.scope.node, "name", "")
        for reading in [root.reading, *spread(self._resolver, root.reading, carrier(root))]:
            self._readings.setdefault(reading.file, reading)
            for scope in reading.scope.subtree():
                for word, call in scope.keywords.get(old, ()):
                    found = self._resolver.keyword(reading, scope, word, call)
                    if found is not None and found.key == root.key:
                        if isinstance(call, ast.Call):
                            self._check_decorators(reading, call)
                        self._put(reading, keyword_place(reading.facts, word), word)
                    elif found is None and isinstance(call, ast.Call) and self._may_call(reading, scope, call, name):
                        self._refuse_call(reading, call, f"a call passes {old} to a function that is not known here")
                for call in scope.calls:
                    self._check_call(reading, scope, call)

    def _check_decorators(self, reading: Reading, call: ast.Call) -> None:
        scope = self._root.scope
        around = scope.parent or scope
        for node in getattr(scope.node, "decorator_list", ()):
            if not keeps_keywords(self._resolver, self._root.reading, around, node, (self._old, self._new)):
                name = ast.unparse(node)
                self._refuse_call(reading, call, f"a call passes {self._old} through @{name}, which may read the name")

    def _may_call(self, reading: Reading, scope: NameScope, call: ast.Call, name: str) -> bool:
        """Return whether a call that is not understood may run the function whose parameter is renamed."""
        func = call.func
        if isinstance(func, ast.Attribute):
            return func.attr == name and self._resolver.called(reading, scope, call) is None
        target = self._resolver.called(reading, scope, call)
        if not isinstance(func, ast.Name | ast.Subscript):
            return target is None
        bindings = target.scope.bindings(target.name) if isinstance(target, Bound) else []
        return target is None or any(item.role in ("parameter", "write") for item in bindings)

    def _check_call(self, reading: Reading, scope: NameScope, call: ast.Call) -> None:
        unpacks = [item for item in call.keywords if item.arg is None]
        clashes = [item for item in call.keywords if item.arg == self._new]
        if not unpacks and not clashes:
            return
        found = self._resolver.function_of(self._resolver.called(reading, scope, call))
        if found is None or Bound(found[0].reading, found[1], self._old).key != self._root.key:
            return
        if clashes:
            self._refuse_call(reading, call, f"a call passes {self._new} already")
        self._refuse_call(reading, call, f"a call unpacks a mapping (`**`), which may have the key {self._old}")

    def _refuse_call(self, reading: Reading, call: ast.Call, message: str) -> NoReturn:
        span = reading.facts.span(call)
        where = f"{span.file}, line {span.line}"
        refuse(f"{message}: {where}", "change that call first, or rename by hand", span)

    # -- what may not change ---------------------------------------------------------------------------------------

    def _check_collision(self, bound: Bound) -> None:
        places = [span for item in bound.scope.bindings(self._new) for span in bound.reading.spans(item)]
        if places:
            where = f"{places[0].file}, line {places[0].line}"
            refuse(f"{self._new} is bound in the same scope already: {where}", "choose another name", places[0])
        inside = any(scope.kind == "class" for scope in _around(bound.scope))
        private = [name for name in (self._old, self._new) if name.startswith("__") and not name.endswith("__")]
        if private and (inside or _is_in_class(bound, self._old)):
            refuse(f"{private[0]} has another name in a class, where Python mangles it", "rename it by hand")

    def _check_stars(self, bound: Bound) -> None:
        """Refuse a name that a star import would bring to a module which uses it, or would no longer bring."""
        listed = any(item.role == "listed" for item in bound.scope.occurrences.get(self._old, ()))
        hidden = self._new.startswith("_") and not listed
        if hidden and self._old.startswith("_"):
            return
        name = self._old if hidden else self._new
        for reading in importers_of_all(self._resolver, bound.reading, name):
            for scope in reading.scope.subtree():
                binders = (None,) if hidden else (None, reading.scope)
                if name in scope.occurrences and scope.binder(name) in binders:
                    span = reading.first(scope.occurrences[name][0])
                    where = reading.file if span is None else f"{span.file}, line {span.line}"
                    lost = f"`import *` leaves out {self._new}, and {where} uses it"
                    taken = f"`import *` would bring {self._new} to a module that uses it already: {where}"
                    refuse(lost if hidden else taken, "choose another name", span)

    def _check_classes(self, bound: Bound) -> None:
        """Refuse a name that a class body reads and binds: which one it reads is known when it runs."""
        for inner in bound.scope.subtree():
            is_inner = inner.kind == "class" and inner is not bound.scope and self._old in inner.bound
            if is_inner and any(other.role == "read" for other in inner.occurrences[self._old]):
                name = getattr(inner.node, "name", "")
                refuse(f"the body of the class {name} reads and binds {self._old}", "rename it by hand")

    def verify(self, file: str, edits: Edits) -> None:
        """Refuse edits after which a mention would be bound elsewhere."""
        reading = self._readings[file]
        lines = reading.facts.lines
        words = re.compile(rf"\b(?:{re.escape(self._old)}|{re.escape(self._new)})\b")
        for number in sorted(reading.facts.parsed.unread):
            if words.search(reading.facts.line(number)):
                span = Span(file, number, 1, number, len(lines[number - 1]) + 1)
                refuse(
                    f"{file}, line {number} mentions the name and is no Python yet", "complete that line first", span
                )
        line = difference(reading, applied(lines, edits), self._old, self._new)
        if line:
            message = f"with the name {self._new}, {file}, line {line} would mean another thing"
            refuse(message, "choose another name", Span(file, line, 1, line, 2))


def _is_in_class(bound: Bound, name: str) -> bool:
    """Return whether a class inside the scope of a name mentions it."""
    return any(outer.kind == "class" for scope, _ in bound.scope.mentions(name) for outer in _around(scope))


def _around(scope: NameScope) -> Iterator[NameScope]:
    found: NameScope | None = scope
    while found is not None:
        yield found
        found = found.parent
