/** All that is known of the selected tile, and the ways on from it. */

import { el, replace, setText } from '../../dom';
import * as format from '../../format';
import type { Store } from '../../types';
import type { TileFacts } from './facts';
import { factsOf } from './facts';
import { countsOf } from './folds';
import type { Occupancy, Tile } from './occupancy';
import type { QueryBar } from './query_bar';
import { placeText } from './query';
import { stateWords } from './psum';
import type { Scene } from './scene';
import type { Spot } from './section';
import { readersOf } from './uses';

export interface Details {
  readonly element: HTMLElement;
  draw(scene: Scene): void;
}

/** Picoseconds are told apart down to this share of a bar. */
const THIN = 0.004;

/** The answer to a question stands above what is known of the selected tile. */
export function createDetails(store: Store, query: QueryBar): Details {
  const close = el('button', { type: 'button', class: 'nki-memory-close', 'aria-label': 'Close', title: 'Close' }, '✕');
  const body = el('div', {});
  const element = el('aside', { class: 'nki-memory-details', 'aria-label': 'Tile' }, close, query.answer, body);
  close.addEventListener('click', () => {
    query.close();
    element.hidden = true;
    store.set({ tile: -1 });
  });
  let drawn: { tile: number; model: unknown; key: string } | undefined;
  return {
    element,
    draw(scene) {
      const { tile } = scene.state;
      element.hidden = scene.compact && tile < 0 && !query.open;
      close.hidden = !scene.compact;
      query.draw(scene);
      const found = lookUp(scene, tile);
      const group = found?.occupancy === scene.psum ? stateWords(scene.usage.state(found.tile, scene.time)) : '';
      const look = found === undefined ? '' : scene.painter(found.tile, scene.time).ground + group;
      const key = `${look} ${scene.compact}`;
      if (drawn?.tile === tile && drawn.model === scene.sbuf && drawn.key === key) return;
      drawn = { tile, model: scene.sbuf, key };
      if (found !== undefined) show(body, scene, found.occupancy, found.tile, store);
      else if (tile < 0 && scene.compact) replace(body);
      else replace(body, el('p', { class: 'nki-memory-hint' }, hintFor(scene, tile)));
    },
  };
}

/** The tile of a buffer and the memory that it is in. */
export function lookUp(
  memory: { readonly sbuf: Occupancy; readonly psum: Occupancy },
  buffer: number,
): { occupancy: Occupancy; tile: Tile } | undefined {
  for (const occupancy of [memory.sbuf, memory.psum]) {
    const tile = occupancy.of(buffer);
    if (tile !== undefined) return { occupancy, tile };
  }
  return undefined;
}

function hintFor(scene: Scene, buffer: number): string {
  const chosen = scene.run.buffers.at(buffer < 0 ? Infinity : buffer);
  if (chosen === undefined) return 'Select a tile to see where it lies, who writes and who reads it.';
  if (chosen.lifetime === null) return `${chosen.name} is never used.`;
  return chosen.space === 'sbuf' || chosen.space === 'psum'
    ? `${chosen.name} has no address.`
    : `${chosen.name} is in HBM, not on the chip.`;
}

function show(element: HTMLElement, scene: Scene, occupancy: Occupancy, tile: Tile, store: Store): void {
  const facts = factsOf(scene.run, occupancy, tile);
  const { ground } = scene.painter(tile, scene.time);
  const group = occupancy === scene.psum ? stateWords(scene.usage.state(tile, scene.time)) : '';
  const swatch = el('i', { class: 'nki-memory-swatch', style: { background: ground } });
  const title = el('h4', {}, swatch, el('code', {}, facts.title), el('span', {}, facts.slot));
  const list = el('dl', {});
  for (const { name, value, code } of facts.facts) {
    list.append(el('dt', {}, name), el('dd', { class: code === true ? 'nki-memory-code' : '' }, value));
  }
  if (group !== '') list.append(el('dt', {}, 'Group'), el('dd', {}, group));
  const type = el('p', { class: 'nki-memory-type' }, facts.type);
  const life = el('p', { class: 'nki-memory-life' }, facts.life);
  replace(element, title, type, list, life, lifeBar(facts, ground), buttons(scene, tile, facts, store));
}

/** The three parts of a life to scale. */
function lifeBar(facts: TileFacts, ground: string): HTMLElement {
  const total = Math.max(
    1,
    facts.parts.reduce((a, b) => a + b, 0),
  );
  const kinds = ['writing', 'live', 'dead'];
  const parts = facts.parts.map((part, place) => {
    const style = { 'flex-grow': String(part / total), '--colour': ground };
    return part / total > THIN && el('i', { class: `nki-memory-part-${kinds[place] ?? ''}`, style });
  });
  return el('div', { class: 'nki-memory-lifebar', 'aria-hidden': 'true' }, ...parts);
}

function buttons(scene: Scene, tile: Tile, facts: TileFacts, store: Store): HTMLElement {
  const { run } = scene;
  const site = run.site(tile.buffer.site);
  const line = el(
    'button',
    {
      type: 'button',
      on: { click: () => site && store.set({ line: { source: site.source, line: site.line }, panel: 'source' }) },
    },
    `Line ${facts.line}`,
  );
  const readers = readersOf(run.uses(tile.buffer.id));
  const next = (): void => {
    const { state } = store;
    const from = state.selected >= 0 ? state.selected : state.step;
    const step = readers.find(reader => reader > from) ?? readers[0];
    if (step !== undefined) store.select(step);
  };
  const reader = el('button', { type: 'button', on: { click: next } }, 'Next reader');
  return el('div', { class: 'nki-memory-actions' }, site !== null && line, readers.length > 0 && reader);
}

export interface Card {
  readonly element: HTMLElement;
  show(scene: Scene, spot: Spot, x: number, y: number): void;
  hide(): void;
}

/** A few facts beside the pointer. */
export function createCard(): Card {
  const title = el('b', {});
  const lines = el('div', {});
  const element = el('div', { class: 'nki-memory-card', role: 'tooltip', hidden: true }, title, lines);
  return {
    element,
    show(scene, spot, x, y) {
      setText(title, titleOf(spot));
      replace(lines, ...rowsOf(scene, spot), el('p', { class: 'nki-memory-type' }, placeText(spot)));
      element.hidden = false;
      const host = element.parentElement;
      const room = { width: host?.clientWidth ?? 0, height: host?.clientHeight ?? 0 };
      const left = x + 14 + element.offsetWidth > room.width ? x - 14 - element.offsetWidth : x + 14;
      const top = Math.min(y + 14, room.height - element.offsetHeight - 4);
      element.style.left = `${Math.max(4, left)}px`;
      element.style.top = `${Math.max(4, top)}px`;
    },
    hide() {
      element.hidden = true;
    },
  };
}

function titleOf({ tile, fold }: Spot): string {
  if (tile !== undefined) return tile.buffer.name;
  return fold === undefined ? 'free' : format.plural(fold.boxes.length, 'dead tile');
}

/** Kinds of tiles that a fold's card names. */
const KINDS = 6;

function rowsOf(scene: Scene, { tile, fold }: Spot): HTMLElement[] {
  const row = (name: string, value: string): HTMLElement => el('p', {}, el('span', {}, name), value);
  if (tile !== undefined) {
    const occupancy = scene.sbuf.of(tile.buffer.id) === tile ? scene.sbuf : scene.psum;
    const facts = factsOf(scene.run, occupancy, tile);
    const rows = facts.facts.slice(0, 5).map(({ name, value }) => row(name, value));
    if (occupancy === scene.psum) rows.push(row('Group', stateWords(scene.usage.state(tile, scene.time))));
    return [el('p', { class: 'nki-memory-type' }, facts.type), ...rows];
  }
  if (fold === undefined) return [];
  const bytes = fold.boxes.reduce((sum, box) => sum + box.tile.high - box.tile.low, 0);
  const counts = countsOf(fold.boxes);
  const rows = counts.slice(0, KINDS).map(([name, count]) => row(name, `${format.count(count)} ×`));
  if (counts.length > KINDS) rows.push(row(`${counts.length - KINDS} more names`, ''));
  return [
    el('p', { class: 'nki-memory-type' }, `${format.bytes(bytes)} per partition, not reused; click to zoom`),
    ...rows,
  ];
}
