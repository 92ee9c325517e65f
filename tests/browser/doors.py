"""What a visualizer shows, as numbers and as colours, so that one place where it is drawn can be compared with another."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.browser.lab import Visualizer

Facts = dict[str, Any]

FACTS: Final = """root => {
  const text = node => (node ? node.textContent : '').replace(/\\s+/g, ' ').trim();
  const all = (selector, of) => [...root.querySelectorAll(selector)].map(of);
  let core = '';
  const gutter = {};
  for (const cell of root.querySelectorAll('.nki-tl-cell')) {
    const name = text(cell.querySelector('.nki-tl-name'));
    if (cell.classList.contains('nki-tl-cell-core')) core = name.toLowerCase();
    if (/-(lane|dma|counter)\\b/.test(cell.className))
      gutter[core === '' ? name : `${name}, ${core}`] =
        [text(cell.querySelector('.nki-tl-share')), text(cell.querySelector('.nki-tl-note'))].join(' ').trim();
  }
  return {
    kernel: text(root.querySelector('.nki-kernel')),
    meta: text(root.querySelector('.nki-meta')),
    latency: text(root.querySelector('.nki-figure')),
    why: text(root.querySelector('.nki-sentence')),
    numbers: Object.fromEntries(all('.nki-numbers > div', item => [text(item.children[0]), text(item.children[1])])),
    where: text(root.querySelector('.nki-where')),
    gutter,
    memory: text(root.querySelector('.nki-slot-memory .nki-memory-key, .nki-slot-memory [class*=legend]')),
    lanes: all('.nki-engine-name', text),
    theme: (root.closest('.nki-root') ?? root).dataset.nkiTheme,
  };
}"""
"""A function of the page: the figures of a visualizer as they are written."""

HUES: Final = """root => {
  const style = getComputedStyle(root.closest('.nki-root'));
  const names = ['bg', 'tensor', 'vector', 'scalar', 'dma'];
  const wanted = new Map(names.map(name => [style.getPropertyValue(`--nki-${name}`).trim().toLowerCase(), name]));
  const hex = value => value.toString(16).padStart(2, '0');
  const found = {};
  for (const slot of ['timeline', 'memory']) {
    const counts = new Set();
    let drawn = 0;
    for (const canvas of root.querySelectorAll(`.nki-slot-${slot} canvas`)) {
      if (!canvas.width || !canvas.height || !canvas.checkVisibility()) continue;
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const colours = new Map();
      for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] < 255) continue;
        const colour = `#${hex(data[at])}${hex(data[at + 1])}${hex(data[at + 2])}`;
        colours.set(colour, (colours.get(colour) ?? 0) + 1);
      }
      if (colours.size > 1) drawn++;
      for (const [colour, count] of colours) if (count >= 40 && wanted.has(colour)) counts.add(wanted.get(colour));
    }
    found[slot] = { canvases: drawn, hues: [...counts].sort() };
  }
  return found;
}"""
"""A function of the page: for timeline and memory, the canvases that are not of one colour, and the hues of the theme
that fill at least 40 pixels of them."""


def facts(drawn: Visualizer) -> Facts:
    """Return the figures of a visualizer."""
    drawn.painted()
    found: Facts = drawn.root.evaluate(FACTS)
    return found


def hues(drawn: Visualizer) -> Facts:
    """Return the colours of its pictures."""
    drawn.painted()
    found: Facts = drawn.root.evaluate(HUES)
    return found


def plain(text: str) -> str:
    """Return a text with ordinary spaces."""
    return re.sub(r"\s+", " ", text).strip()
