"""Completions, and the whole documentation of the one that is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from lsprotocol import types as lsp

from nki_lab.diagnostic import Span
from nki_lab.isa.arch import arch_of
from nki_lab.lsp.checker import known_of
from nki_lab.lsp.markup import markup
from nki_lab.lsp.navigation import open_modules, workspace_of
from nki_lab.lsp.server import Requests, Server
from nki_lab.query.completion import Completion, Completions, completions, full_text, inserted
from nki_lab.query.navigation.workspace import Workspace

TRIGGERS: Final = (".", "(", ",", "=", " ")

_KINDS: Final[Mapping[str, lsp.CompletionItemKind]] = {
    "module": lsp.CompletionItemKind.Module,
    "class": lsp.CompletionItemKind.Class,
    "function": lsp.CompletionItemKind.Function,
    "method": lsp.CompletionItemKind.Method,
    "attribute": lsp.CompletionItemKind.Property,
    "variable": lsp.CompletionItemKind.Variable,
    "parameter": lsp.CompletionItemKind.Variable,
    "constant": lsp.CompletionItemKind.Constant,
    "enum": lsp.CompletionItemKind.Enum,
    "member": lsp.CompletionItemKind.EnumMember,
    "dtype": lsp.CompletionItemKind.TypeParameter,
    "operator": lsp.CompletionItemKind.Operator,
    "keyword": lsp.CompletionItemKind.Field,
}


async def complete(server: Server, params: lsp.CompletionParams) -> lsp.CompletionList | None:
    """Return the names that can stand at a place, at once: what an evaluation says of them as far as there is one."""
    uri = params.text_document.uri
    unit = await server.checker.settled(uri, 0.0, fully=False)
    module = server.checker.module(uri)
    at = None if module is None else module.place(uri, params.position, server.encoding)
    if unit is None or module is None or at is None:
        return None
    arch, known = server.arch_at(module, at[0]), known_of(unit, module)
    typed = params.context.trigger_character if params.context is not None else None
    source = module.sources if module.is_notebook else module.text
    opened = open_modules(server)

    def files() -> Workspace:
        return workspace_of(server, module.file, opened)

    found = await asyncio.to_thread(
        completions, source, *at, module.file, target=arch, known=known, typed=typed or "", files=files
    )
    if found is None:
        return None
    span = Span(module.file, found.line, found.start, found.line, found.cursor)
    place = module.location(span, server.encoding)
    whole = module.location(Span(module.file, found.line, found.start, found.line, found.end), server.encoding)
    if place is None or whole is None:
        return None
    return _Shown(server, found, place.range, whole.range, arch.target).items()


async def resolve(server: Server, item: lsp.CompletionItem) -> lsp.CompletionItem:
    """Return a completion with the whole documentation of its name."""
    data = item.data
    if isinstance(data, list | tuple) and len(data) == 2 and all(isinstance(part, str) for part in data):
        text = await asyncio.to_thread(full_text, data[0], arch_of(data[1]))
        if text is not None:
            able = server.client_capabilities.text_document
            shown = able.completion.completion_item if able is not None and able.completion is not None else None
            item.documentation = markup(text, shown.documentation_format if shown is not None else None)
    return item


class _Shown:
    """Completions as one editor can show them."""

    def __init__(self, server: Server, found: Completions, insert: lsp.Range, replace: lsp.Range, target: str) -> None:
        text = server.client_capabilities.text_document
        able = text.completion if text is not None else None
        item = able.completion_item if able is not None else None
        defaults = able.completion_list.item_defaults if able is not None and able.completion_list is not None else None
        self._found = found
        self._snippets = bool(item is not None and item.snippet_support)
        self._label_details = bool(item is not None and item.label_details_support)
        self._tags = item is not None and item.tag_support is not None
        self._range: lsp.Range | lsp.EditRangeWithInsertReplace = insert
        self._both = bool(item is not None and item.insert_replace_support)
        if self._both:
            self._range = lsp.EditRangeWithInsertReplace(insert, replace)
        self._is_default = "editRange" in (defaults or ())
        self._target = target

    def items(self) -> lsp.CompletionList:
        """Return the list."""
        defaults = lsp.CompletionItemDefaults(edit_range=self._range) if self._is_default else None
        items = [self._item(item) for item in self._found.items]
        return lsp.CompletionList(is_incomplete=False, items=items, item_defaults=defaults)

    def _item(self, item: Completion) -> lsp.CompletionItem:
        insertion = inserted(item, calls=self._found.calls, snippets=self._snippets)
        made = lsp.CompletionItem(item.label, kind=_KINDS[item.kind], sort_text=item.sort_text)
        made.detail = item.summary or None
        if self._label_details:
            made.label_details = lsp.CompletionItemLabelDetails(item.signature or None, item.note or None)
        elif item.signature or item.note:
            made.detail = " · ".join(part for part in (item.signature.strip(), item.note, item.summary) if part)
        if item.deprecated:
            made.tags, made.deprecated = ([lsp.CompletionItemTag.Deprecated], None) if self._tags else (None, True)
        if insertion.snippet:
            made.insert_text_format = lsp.InsertTextFormat.Snippet
        if self._is_default:
            made.text_edit_text = insertion.text if insertion.text != item.label else None
        elif isinstance(self._range, lsp.EditRangeWithInsertReplace):
            made.text_edit = lsp.InsertReplaceEdit(insertion.text, self._range.insert, self._range.replace)
        else:
            made.text_edit = lsp.TextEdit(self._range, insertion.text)
        if item.filter_text(self._found.word) != item.label:
            made.filter_text = item.filter_text(self._found.word)
        if item.dotted:
            made.data = [item.dotted, self._target]
        return made


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_COMPLETION: (
        complete,
        lsp.CompletionOptions(
            trigger_characters=list(TRIGGERS),
            resolve_provider=True,
            completion_item=lsp.ServerCompletionItemOptions(label_details_support=True),
        ),
    ),
    lsp.COMPLETION_ITEM_RESOLVE: (resolve, None),
}
