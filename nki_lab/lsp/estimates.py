"""Costs of kernels, and findings on other targets, asked of the process once for each version of a text."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from nki_lab.diagnostic import Diagnostic
from nki_lab.lsp.checker import Checker, Unit
from nki_lab.lsp.texts import Module

if TYPE_CHECKING:
    from nki_lab.query.estimate import Estimate

T = TypeVar("T")


class Estimates:
    """Keeps the answers about the newest version of each text that somebody asked about."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._known: dict[str, tuple[Module, dict[str, asyncio.Task[Any]]]] = {}
        self._targets: dict[str, tuple[Module, dict[str, tuple[Diagnostic, ...]]]] = {}

    async def of(self, unit: Unit, module: Module, kernel: str) -> Estimate | None:
        """Return the estimate of a kernel; None where the text changes meanwhile."""

        async def ask() -> Estimate | None:
            return (await self._checker.examiner.ask(self._checker.job(unit, module), kernel)).estimate

        return await self._once(unit, module, kernel, ask())

    async def examine_on(self, unit: Unit, module: Module, target: str) -> None:
        """Have a text examined on another target; `on_targets` has the result."""
        reply = await self._checker.examiner.ask(self._checker.job(unit, module, target))
        if reply.findings is not None:
            known = self._targets.get(unit.key)
            if known is None or known[0] is not module:
                known = self._targets[unit.key] = (module, {})
            known[1][target] = reply.findings

    def on_targets(self, unit: Unit, module: Module) -> Mapping[str, tuple[Diagnostic, ...]]:
        """Return the findings on other targets, as far as somebody asked for them since the text has changed."""
        known = self._targets.get(unit.key)
        return known[1] if known is not None and known[0] is module else {}

    async def _once(self, unit: Unit, module: Module, name: str, work: Coroutine[Any, Any, T]) -> T:
        known = self._known.get(unit.key)
        if known is None or known[0] is not module:
            known = self._known[unit.key] = (module, {})
        task: asyncio.Task[T] | None = known[1].get(name)
        if task is None:
            task = known[1][name] = asyncio.ensure_future(work)
            task.add_done_callback(lambda done: _is_empty(done) and known[1].pop(name, None))
        else:
            work.close()
        return await asyncio.shield(task)

    def forget(self, key: str) -> None:
        """Forget a text that is closed."""
        self._known.pop(key, None)
        self._targets.pop(key, None)


def _is_empty(done: asyncio.Task[Any]) -> bool:
    return done.cancelled() or done.exception() is not None or done.result() is None
