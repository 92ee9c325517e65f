"""The trees of a text: those of its earlier versions are gone as soon as there are newer ones, with no collection."""

from __future__ import annotations

import ast
import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from nki_lab.lsp.collecting import let_go
from nki_lab.lsp.readings import Readings
from nki_lab.lsp.texts import Module
from nki_lab.lsp.trees import Trees
from nki_lab.query import Examination
from nki_lab.source import SyntaxFacts

T = TypeVar("T")

TEXT = "import nki\n\n\n@nki.jit\ndef double(x):\n    y = x + x\n    return y\n"
BROKEN = TEXT.replace("x + x", "(x + ")
URI = "file:///kernels/double.py"


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def version(text: str) -> Module:
    return Module(URI, (text,), ((URI, tuple(text.split("\n"))),), (0,), is_notebook=False)


def in_a_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `work` in a thread of its own: the test's may have a loop, that of a browser."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()


async def asked(trees: Trees, readings: Readings, text: str) -> weakref.ref[ast.AST]:
    """Ask for the names and colours of a version; gives its tree."""

    def answer(facts: SyntaxFacts) -> weakref.ref[ast.AST]:
        readings.of(URI, facts)
        readings.tokens(URI, facts, Examination())
        return weakref.ref(facts.tree.body[-1])

    found = await trees.analysed(version(text), answer)
    assert found is not None
    return found


def test_nothing_keeps_the_tree_of_an_earlier_version() -> None:
    async def edits() -> None:
        readings = Readings()
        trees = Trees(readings.follow)
        first = await asked(trees, readings, TEXT)
        assert first() is not None
        await trees.analysed(version(BROKEN), lambda _facts: None)  # somebody asks something else
        assert first() is None

    in_a_loop(edits)


def test_an_error_keeps_no_tree() -> None:
    async def refused() -> weakref.ref[ast.AST]:
        readings = Readings()
        trees = Trees(readings.follow)
        first = await asked(trees, readings, TEXT)

        def answer(facts: SyntaxFacts) -> None:
            kept.append(error := KeyError("no such name"))  # and an error lives in a cycle with its frames
            raise error

        kept: list[Exception] = []
        with pytest.raises(KeyError) as caught:
            await trees.analysed(version(TEXT), answer)
        trees.forget(URI)
        readings.forget(URI)
        assert first() is not None
        let_go(caught.value)
        return first

    assert in_a_loop(refused)() is None
