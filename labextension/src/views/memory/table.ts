/** The tiles of the moment as a table, to be read instead of the pictures, and as text to be copied. */

import { MEMORY_LABELS } from '../../_generated/schema';
import { el, replace, setAttribute } from '../../dom';
import * as format from '../../format';
import type { Store } from '../../types';
import { COLUMNS, rowOf } from './facts';
import type { Tile } from './occupancy';
import type { Scene } from './scene';

export interface Table {
  readonly element: HTMLElement;
  draw(scene: Scene): void;
}

/** So many rows are made, and so many tiles named; the rest is counted. */
const ROWS = 200;
const NAMED = 12;

/** A tile with its cells. */
export interface Row {
  readonly tile: Tile;
  readonly cells: readonly string[];
}

/** The tiles there now by memory and address, dead ones included. */
export function rowsOf(scene: Scene): readonly { readonly space: string; readonly rows: readonly Row[] }[] {
  return [
    { space: MEMORY_LABELS.sbuf, rows: rowsFor(scene, scene.sbufTiles) },
    { space: MEMORY_LABELS.psum, rows: rowsFor(scene, scene.psumTiles) },
  ];
}

function rowsFor(scene: Scene, tiles: readonly Tile[]): readonly Row[] {
  const { run, usage, time } = scene;
  const sorted = [...tiles].sort((a, b) => a.low - b.low || a.top - b.top);
  return sorted.map(tile => ({ tile, cells: rowOf(run, tile, time, usage.written(tile, time)) }));
}

/** Everything as text: tabs between cells, a line for each tile. */
export function textOf(scene: Scene): string {
  const core = scene.cores.length > 1 ? `, ${scene.run.coreName(scene.core)}` : '';
  const step = scene.atPeak ? 'at its fullest' : `step ${format.ordinal(scene.state.step)}`;
  const lines = [`Memory of ${scene.run.kernel}${core} at ${format.time(scene.time)}, ${step}`];
  lines.push(['Memory', ...COLUMNS].join('\t'));
  for (const { space, rows } of rowsOf(scene)) for (const { cells } of rows) lines.push([space, ...cells].join('\t'));
  return `${lines.join('\n')}\n`;
}

/** Give a picture its words: what it is, its caption, and the first tiles with their states. */
export function describe(picture: Element, space: string, words: string, scene: Scene, tiles: readonly Tile[]): void {
  const first = [...tiles].sort((a, b) => a.low - b.low || a.top - b.top).slice(0, NAMED);
  const named = rowsFor(scene, first).map(({ cells: [name, state] }) => `${name} ${state}`);
  if (tiles.length > NAMED) named.push(`${format.count(tiles.length - NAMED)} more in the table`);
  setAttribute(picture, 'role', 'img');
  setAttribute(picture, 'aria-label', `${space}, ${words}: ${named.join(', ') || 'no tiles now'}`);
}

export function createTable(store: Store): Table {
  const body = el('tbody', {});
  const heads = COLUMNS.map(name => el('th', { scope: 'col' }, name));
  const grid = el('table', { role: 'grid', 'aria-label': 'Tiles now' }, el('thead', {}, el('tr', {}, ...heads)), body);
  const element = el('div', { class: 'nki-memory-table', hidden: true }, grid);
  let known = '';
  grid.addEventListener('keydown', event => move(event, body));
  return {
    element,
    draw(scene) {
      if (element.hidden) return;
      const parts = rowsOf(scene);
      const key = JSON.stringify([scene.state.tile, parts.map(part => part.rows.map(row => row.cells))]);
      if (key === known) return;
      known = key;
      const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.tile : undefined;
      replace(body, ...parts.flatMap(({ space, rows }) => bodyRows(space, rows, scene, store)));
      grid.setAttribute('aria-rowcount', String(parts.reduce((total, part) => total + part.rows.length, 1)));
      const again = [...body.querySelectorAll<HTMLElement>('[data-tile]')].find(row => row.dataset.tile === focused);
      if (focused !== undefined) again?.focus();
    },
  };
}

function bodyRows(space: string, rows: readonly Row[], scene: Scene, store: Store): HTMLElement[] {
  const head = el('tr', { class: 'nki-memory-space' }, el('th', { scope: 'rowgroup', colspan: COLUMNS.length }, space));
  const out: HTMLElement[] = rows.length === 0 ? [] : [head];
  for (const { tile, cells } of rows.slice(0, ROWS)) {
    const { id } = tile.buffer;
    const attributes = {
      tabindex: out.length === 1 ? 0 : -1,
      'data-tile': id,
      'aria-selected': String(id === scene.state.tile),
      on: { click: () => store.set({ tile: id }), focus: () => store.set({ tile: id }) },
    };
    out.push(el('tr', attributes, ...cells.map(cell => el('td', {}, cell))));
  }
  const rest = rows.length - ROWS;
  if (rest > 0)
    out.push(el('tr', {}, el('td', { colspan: COLUMNS.length }, `and ${format.count(rest)} more in ${space}`)));
  return out;
}

/** Arrow keys move between the rows while one has the focus. */
function move(event: KeyboardEvent, body: HTMLElement): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  const rows = [...body.querySelectorAll<HTMLElement>('[data-tile]')];
  const place = rows.findIndex(row => row === document.activeElement);
  rows[Math.min(Math.max(place + step, 0), rows.length - 1)]?.focus();
  event.preventDefault();
  event.stopPropagation();
}
