"""Lines above kernels: run it, its latency, its memory, its findings; figures are worked out when they are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types as lsp

from nki_lab.file_system import made_private_folder, write_whole
from nki_lab.isa.arch import TARGETS as ALL_TARGETS
from nki_lab.lsp import refreshing
from nki_lab.lsp.checker import findings_of
from nki_lab.lsp.convert import plain
from nki_lab.lsp.server import Requests, Server
from nki_lab.query import lenses

if TYPE_CHECKING:
    from nki_lab.query.estimate import Estimate

CELL: Final = "nki-lab.cell"
"""The command that gives the cell which runs a kernel: `[uri, kernel, {"show": bool}]`."""
TARGETS: Final = "nki-lab.targets"
"""The command that examines a text on all targets: `[uri]`."""

LENS_SECONDS: Final = 5.0
"""A figure waits so long for the examination and the estimate; a later one makes the editor ask again."""
_RUN, _TIME, _MEMORY, _FINDINGS = _KINDS = ("run", "time", "memory", "findings")


async def code_lens(server: Server, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """Return the lenses over the kernels of a text, without the figures."""
    uri = params.text_document.uri
    module = server.checker.module(uri)
    found = None if module is None else await server.trees.analysed(module, lenses.kernels)
    out = []
    for name, span in (found or {}).items():
        place = module.location(span, server.encoding) if module is not None else None
        if place is not None and place.uri == uri:
            for kind in _KINDS:
                command = lsp.Command(lenses.RUN, CELL, arguments=[uri, name]) if kind == _RUN else None
                out.append(lsp.CodeLens(place.range, command, {"uri": uri, "kernel": name, "kind": kind}))
    return out


async def resolved(server: Server, lens: lsp.CodeLens) -> lsp.CodeLens:
    """Return a lens with its figure."""
    data = plain(lens.data)
    if lens.command is None and isinstance(data, dict):
        uri, kernel, kind = (str(data.get(key, "")) for key in ("uri", "kernel", "kind"))
        try:
            async with asyncio.timeout(LENS_SECONDS):
                lens.command = await _command(server, uri, kernel, kind)
        except TimeoutError:
            lens.command = lsp.Command(lenses.PENDING, "")
            server.soon(_refresh_after(server, uri, kernel))
    return lens


async def _refresh_after(server: Server, uri: str, kernel: str) -> None:
    """Have the editor ask again when the estimate of a kernel is there."""
    if await estimate_of(server, uri, kernel) is not None:
        server.refresher.now(refreshing.CODE_LENS)


async def estimate_of(server: Server, uri: str, kernel: str) -> Estimate | None:
    """Return the estimate of a kernel, after the examination of its text; None where the text changes or closes."""
    unit = await server.checker.settled(uri, _FOREVER)
    if unit is None or unit.module is None or not unit.is_settled:
        return None
    return await server.estimates.of(unit, unit.module, kernel)


_FOREVER: Final = 3600.0


async def _command(server: Server, uri: str, kernel: str, kind: str) -> lsp.Command:
    if kind == _FINDINGS:
        counts = await _counts(server, uri, kernel)
        asked = " · other targets?" if len(counts) == 1 else ""
        return lsp.Command(lenses.findings_title(counts) + asked if counts else "", TARGETS, arguments=[uri])
    estimate = await estimate_of(server, uri, kernel)
    if estimate is None:
        return lsp.Command(lenses.PENDING, "")
    return lsp.Command(lenses.time_title(estimate) if kind == _TIME else lenses.memory_title(estimate), "")


async def _counts(server: Server, uri: str, kernel: str) -> dict[str, int]:
    """Return the findings in a kernel by target, its own first: that of its cell, or of the settings."""
    unit = await server.checker.settled(uri, _FOREVER)
    module = unit.module if unit is not None else None
    extents = None if module is None else await server.trees.analysed(module, lenses.extents)
    if unit is None or module is None or kernel not in (extents or {}):
        return {}
    lines = (extents or {})[kernel]
    others = dict(server.estimates.on_targets(unit, module))
    own = server.arch_at(module, lines[0]).target
    others.pop(own, None)
    found = {own: findings_of(unit, module)} | {target: list(items) for target, items in others.items()}
    return {target: lenses.count(items, module.file, lines) for target, items in found.items()}


# -- commands ----------------------------------------------------------------------------------------------------------


async def examine_targets(server: Server, uri: str) -> dict[str, dict[str, int]]:
    """Examine a text on all targets; gives the findings of its kernels, by kernel and target."""
    unit = await server.checker.settled(uri, _FOREVER)
    module = unit.module if unit is not None else None
    if unit is None or module is None:
        return {}
    extents = await server.trees.analysed(module, lenses.extents) or {}
    if not extents:
        return {}
    own = {server.arch_at(module, first).target for first, _ in extents.values()}
    for target in sorted({arch.target for arch in ALL_TARGETS.values()}):
        if own != {target}:  # some kernel is not checked for it
            await server.estimates.examine_on(unit, module, target)
    server.refresher.now(refreshing.CODE_LENS)
    return {name: await _counts(server, uri, name) for name in extents}


async def cell(server: Server, uri: str, kernel: str, options: object = None) -> dict[str, Any] | None:
    """Return the cell that runs a kernel, and show it in an editor that shows documents.

    `cell` is Python for the notebook that defines the kernel; of a kernel in a file it imports that file. The document
    that is shown, `uri`, is a script of cells (`# %%`), in a folder of its own. With `{"show": False}` nothing is;
    with `{"page": PATH}` a file's script writes the run as a page there. None where the document is not open, or has
    no such kernel.
    """
    from nki_lab.query import running

    given = plain(options)
    table: Mapping[str, object] = given if isinstance(given, dict) else {}
    estimate = await estimate_of(server, uri, kernel)
    module = server.checker.module(uri)
    extents = None if module is None else await server.trees.analysed(module, lenses.extents)
    if module is None or kernel not in (extents or {}):
        return None
    target = server.arch_at(module, (extents or {})[kernel][0]).target
    arguments = estimate.arguments if estimate is not None else ""
    known = bool(arguments)
    if not known:
        arguments = await server.trees.analysed(module, lambda facts: running.example_arguments(facts, kernel)) or ""
    if module.is_notebook or not Path(module.file).is_absolute():
        text = running.cell(kernel, arguments, target, known=known)
    else:
        page = str(table.get("page") or "")
        text = running.script(module.file, kernel, arguments, target, known=known, page=page)
    window = server.client_capabilities.window
    wanted = table.get("show", True)
    shown = None
    if wanted and window is not None and window.show_document is not None and window.show_document.support:
        shown = await asyncio.to_thread(_written, kernel, text)
        await server.window_show_document_async(lsp.ShowDocumentParams(shown, take_focus=True))
    return {"cell": text, "uri": shown}


def _written(kernel: str, text: str) -> str:
    """Write a script into a new folder that only its owner reads; gives its URI."""
    path = made_private_folder() / f"run_{kernel}.py"
    write_whole(path, text.encode("utf-8", "replace"))
    return path.as_uri()


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_CODE_LENS: (code_lens, lsp.CodeLensOptions(resolve_provider=True)),
    lsp.CODE_LENS_RESOLVE: (resolved, None),
}
COMMANDS: Final[Mapping[str, Callable[..., Awaitable[object]]]] = {CELL: cell, TARGETS: examine_targets}
"""The commands of the lenses."""
