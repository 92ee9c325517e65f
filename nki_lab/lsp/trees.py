"""Syntax facts of open texts, reparsed where a text has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.lsp.texts import Module
from nki_lab.source import SyntaxFacts, syntax_facts

T = TypeVar("T")


class Trees:
    """Keeps the facts of the newest version of each text that somebody asked about.

    Facts of one version are made from those before, which are used up; therefore only one analysis of a text runs at a
    time, beside the event loop. `follow` learns the facts of each new version.
    """

    def __init__(self, follow: Callable[[str, SyntaxFacts], None]) -> None:
        self._follow = follow
        self._known: dict[str, tuple[tuple[str, ...], SyntaxFacts]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def analysed(self, module: Module, analysis: Callable[[SyntaxFacts], T]) -> T | None:
        """Return what `analysis` makes of a module; None where the module cannot be read."""
        async with self._locks.setdefault(module.uri, asyncio.Lock()):
            return await asyncio.to_thread(self._analyse, module, analysis)

    def _analyse(self, module: Module, analysis: Callable[[SyntaxFacts], T]) -> T | None:
        known = self._known.get(module.uri)
        if known is None or known[0] != module.sources:
            source = module.sources if module.is_notebook else module.sources[0]
            before = known[1] if known is not None and known[1].file == module.file else None
            self._known.pop(module.uri, None)
            try:
                with gc_relaxed():
                    facts = syntax_facts(source, module.file, as_typed=True, before=before)
                    self._follow(module.uri, facts)
            except NkiError:
                return None
            self._known[module.uri] = known = (module.sources, facts)
        return analysis(known[1])

    def forget(self, key: str) -> None:
        """Forget a text that is closed."""
        self._known.pop(key, None)
        self._locks.pop(key, None)
