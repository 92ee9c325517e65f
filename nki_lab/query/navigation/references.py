"""The mentions of a name in its file and in those that import it, and the places where it is bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import Span
from nki_lab.query.navigation.declared import declarations_of
from nki_lab.query.navigation.meaning import Bound, Meaning, Module, Outside, Resolver
from nki_lab.query.navigation.reading import Mention, Reading
from nki_lab.source.name_places import ending, imported_place, keyword_place
from nki_lab.source.occurrences import BINDING_ROLES, NameScope, Occurrence

MOST_FILES: Final = 512
"""Files that are looked through for the mentions of one name."""


@dataclass(frozen=True, slots=True)
class Use:
    """A place that mentions a name; `writes` where it is bound there."""

    span: Span
    writes: bool = False


def target_of(resolver: Resolver, reading: Reading, mention: Mention) -> Meaning | None:
    """Return what the mentions of a name are looked for by: its meaning with imports followed.

    An imported module, and an imported name of another package, is looked for by its name in the text.
    """
    meaning = resolver.mention(reading, mention)
    followed = resolver.followed(meaning)
    if isinstance(meaning, Bound) and isinstance(mention.named, Occurrence) and not isinstance(followed, Bound):
        return meaning
    return followed


def definitions(resolver: Resolver, reading: Reading, mention: Mention) -> list[Span]:
    """Return the places where a name is bound: of an imported one, those in the module that binds it.

    A name of NKI leads to its declaration in the packaged stubs, that of another library nowhere.
    """
    meaning = resolver.mention(reading, mention)
    followed = resolver.followed(meaning)
    if isinstance(followed, Outside):
        found = declarations_of(followed.dotted, resolver.workspace)
        is_read = isinstance(mention.named, Occurrence) and mention.named.role != "import"
        return resolver.places(meaning) if not found and is_read else found
    found = resolver.places(followed)
    return found or (resolver.places(meaning) if isinstance(mention.named, Occurrence) else [])


def declarations(resolver: Resolver, reading: Reading, mention: Mention) -> list[Span]:
    """Return the places of the same text that bind a name: of an imported one, the import."""
    meaning = resolver.mention(reading, mention)
    own = isinstance(meaning, Bound) and meaning.reading.file == reading.file
    return resolver.places(meaning) if own else definitions(resolver, reading, mention)


def types(resolver: Resolver, reading: Reading, mention: Mention) -> list[Span]:
    """Return where the class of a named object is defined; of a class, where that is."""
    return resolver.places(resolver.type_of(reading, mention))


def uses_in(resolver: Resolver, reading: Reading, target: Meaning) -> Iterator[Use]:
    """Yield the places of one text that mention a name, some more than once."""
    if isinstance(target, Module):
        return
    name = target.name if isinstance(target, Bound) else target.dotted.rpartition(".")[2].removesuffix(")")
    own = isinstance(target, Bound) and target.reading.file == reading.file
    if own and isinstance(target, Bound):
        # The reading may be another one of the same text.
        scope = target.scope if target.reading is reading else _same_scope(reading, target)
        for _, item in () if scope is None else scope.mentions(name):
            yield from _at(reading, item, writes=item.role in BINDING_ROLES)
    for scope in reading.scope.subtree():
        yield from _others(resolver, reading, scope, target, name, own=own)


def _others(
    resolver: Resolver, reading: Reading, scope: NameScope, target: Bound | Outside, name: str, *, own: bool
) -> Iterator[Use]:
    def means(meaning: Meaning | None) -> bool:
        found = resolver.followed(meaning)
        return found is not None and found.key == target.key

    local = isinstance(target, Bound) and target.scope.kind not in ("module", "class")
    for keyword, call in scope.keywords.get(name, ()) if not isinstance(target, Outside) else ():
        if means(resolver.keyword(reading, scope, keyword, call)):
            span = keyword_place(reading.facts, keyword)
            yield from () if span is None else (Use(span),)
    if local:
        return
    for attribute in scope.attributes.get(name, ()):
        if means(resolver.expression(reading, scope, attribute)):
            span = ending(reading.facts, attribute, name)
            yield from () if span is None else (Use(span, writes=not isinstance(attribute.ctx, ast.Load)),)
    if own:
        return
    for item in scope.imports:
        alias = item.node
        assert isinstance(alias, ast.alias)
        if alias.name.rpartition(".")[2] != name or not means(resolver.imported(reading, item)):
            continue
        binder = scope.binder(item.name)
        if alias.asname is not None:
            span = imported_place(reading.facts, alias)
            yield from () if span is None else (Use(span),)
        for _, other in () if binder is None else binder.mentions(item.name):
            yield from _at(reading, other, writes=other.role in BINDING_ROLES)
    for item in scope.occurrences.get(name, ()):
        if scope.binder(name) is None and means(resolver.local(reading, scope, name)):
            yield from _at(reading, item, writes=False)


def _at(reading: Reading, item: Occurrence, *, writes: bool) -> Iterator[Use]:
    for span in reading.spans(item):
        yield Use(span, writes=writes)


def _same_scope(reading: Reading, target: Bound) -> NameScope | None:
    key = target.key
    return next((item for item in reading.scope.subtree() if Bound(reading, item, target.name).key == key), None)


def in_order(found: Iterator[Use]) -> list[Use]:
    """Return places in the order of the text, each once."""
    unique: dict[Span, Use] = {}
    for item in found:
        if item.span not in unique or item.writes:
            unique[item.span] = item
    return sorted(unique.values(), key=lambda item: (item.span.file, item.span.line, item.span.column))


def highlights(resolver: Resolver, reading: Reading, mention: Mention) -> list[Use]:
    """Return the places of the same text that mention the same name."""
    target = target_of(resolver, reading, mention)
    found = in_order(uses_in(resolver, reading, target)) if target is not None else []
    is_found = any(item.span == mention.span for item in found)
    return found if is_found else in_order(iter([*found, Use(mention.span)]))


def references(resolver: Resolver, reading: Reading, mention: Mention, *, declared: bool) -> list[Span]:
    """Return the places of the workspace that mention the same name, with those that bind it where they are wanted."""
    target = target_of(resolver, reading, mention)
    if target is None or isinstance(target, Module):
        return [mention.span]
    readings = [reading]
    if isinstance(target, Bound):
        home = target.reading if target.reading.file != reading.file else reading
        readings = [home, *spread(resolver, home, carrier(target))]
    found = in_order(use for item in readings for use in uses_in(resolver, item, target))
    bound = set() if declared else set(resolver.places(target))
    return [item.span for item in found if item.span not in bound]


def carrier(target: Bound) -> Bound | None:
    """Return the module's name by which other files get hold of a name: itself, or that of its function or class.

    None for a name that stays in its file.
    """
    if target.scope.kind == "module":
        return target
    scope = target.scope
    if scope.kind == "function" and not any(item.role == "parameter" for item in scope.bindings(target.name)):
        return None
    while scope.parent is not None and scope.parent.kind != "module":
        scope = scope.parent
    name = getattr(scope.node, "name", "")
    return Bound(target.reading, scope.parent, name) if scope.parent is not None and name else None


def spread(resolver: Resolver, home: Reading, target: Bound | None) -> list[Reading]:
    """Return the other readings of the workspace that mention a name of a module, imported under other names too."""
    found: dict[str, Reading] = {}
    pending = [] if target is None else [(home.file, target.name)]
    seen = set(pending)
    while pending and target is not None and len(found) < MOST_FILES:
        file, name = pending.pop()
        for path in resolver.workspace.users(file, [name]):
            reading = found.get(path) or resolver.workspace.reading(path)
            if reading is None:
                continue
            found[path] = reading
            for item in reading.scope.imports:
                alias = item.node
                if isinstance(alias, ast.alias) and alias.name == name and (path, item.name) not in seen:
                    reached = resolver.followed(resolver.imported(reading, item))
                    if reached is not None and reached.key == target.key:
                        seen.add((path, item.name))
                        pending.append((path, item.name))
    found.pop(home.file, None)
    return list(found.values())


def importers_of_all(resolver: Resolver, home: Reading, name: str) -> list[Reading]:
    """Return the readings that star imports give the names of a module, of those that mention `name` or a module."""
    found: dict[str, Reading] = {home.file: home}
    pending = [home.file]
    while pending and len(found) < MOST_FILES:
        file = pending.pop()
        path = Path(file)
        module = path.parent.name if path.stem == "__init__" else path.stem
        for user in resolver.workspace.users(file, [name, module]):
            reading = None if user in found else resolver.workspace.reading(user)
            if reading is not None and any(item.key == Module(file).key for item in resolver.stars(reading)):
                found[user] = reading
                pending.append(user)
    del found[home.file]
    return list(found.values())


def is_member(meaning: Meaning | None) -> bool:
    """Return whether a name belongs to a class: the objects that have it are not all known."""
    return isinstance(meaning, Bound) and meaning.scope.kind == "class"
