"""Loops as rows of iterations, and ranks as groups of lanes, in a page in a browser."""

from __future__ import annotations

from pathlib import Path

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup
from playwright.sync_api import expect

import nki_lab
from tests.browser.lab import Window

pytestmark = pytest.mark.extended


def scaled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128])
        for _j in range(2):
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.store(out[i * 128 : (i + 1) * 128], tile)
    return out


def added(x, group, steps):
    tile, mine = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    for _step in range(steps):
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
    nl.store(mine, tile)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce([mine], [out], group, nl.add)
    return out


def test_loops_fold_and_lead_from_iteration_to_iteration(tab: Window, tmp_path: Path) -> None:
    run = nki_lab.profile(scaled, nki_lab.spec((1280, 256), "float32"), target="trn2")
    run.to_html(tmp_path / "run.html")
    tab.page.goto((tmp_path / "run.html").as_uri())
    drawn = tab.visualizer()
    outer = tab.page.get_by_role("button", name="Iterations of for i")
    inner = tab.page.get_by_role("button", name="Iterations of for _j")
    outer.wait_for()
    assert inner.count() == 1
    outer.click()
    expect(outer).to_have_attribute("aria-expanded", "false")
    expect(inner).to_have_count(0)
    outer.press("Enter")  # the button keeps the focus
    expect(outer).to_have_attribute("aria-expanded", "true")
    loops = tab.page.locator(".nki-tl-tree [aria-label=Loops] [role=listitem]")
    assert "Loop over i" in loops.nth(0).inner_text()
    assert "10 iterations" in loops.nth(0).inner_text()
    drawn.focus()
    drawn.press("Home")
    drawn.press("y")
    facts = tab.page.locator(".nki-tl-foot[data-area]")
    facts.wait_for()
    expect(facts).to_contain_text("i = 1")


def test_more_than_four_ranks_are_folded_but_for_the_slowest(tab: Window, tmp_path: Path) -> None:
    group = ReplicaGroup([list(range(6))])
    x = np.ones((8, 64), np.float32)
    runs = nki_lab.run_ranks(added, [(x, group, 30 if rank == 4 else 3) for rank in range(6)], target="trn2")
    runs.to_html(tmp_path / "ranks.html")
    tab.page.goto((tmp_path / "ranks.html").as_uri())
    buttons = [tab.page.get_by_role("button", name=f"Lanes of rank {rank}") for rank in range(6)]
    buttons[0].wait_for()
    assert [button.get_attribute("aria-expanded") for button in buttons] == ["false"] * 4 + ["true", "false"]
    assert "Rank 4 is the slowest: the others wait" in tab.page.locator(".nki-visualizer").inner_text()
    before = tab.page.locator(".nki-tl-cell").count()
    buttons[0].click()
    expect(buttons[0]).to_have_attribute("aria-expanded", "true")
    assert tab.page.locator(".nki-tl-cell").count() > before
    tab.visualizer().focus()
    tab.visualizer().press("z")
    for button in buttons:
        expect(button).to_have_attribute("aria-expanded", "true")
