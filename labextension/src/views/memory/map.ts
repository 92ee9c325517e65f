/** Where everything of the SBUF map stands: bytes to the right, partitions down. Nothing is painted here. */

import type { Span } from '../../types';
import type { Label, Measure } from './labels';
import { placeLabel } from './labels';
import type { Phase, Tile } from './occupancy';
import { phaseAt } from './occupancy';
import type { Shown } from './ranges';
import { shareOf } from './ranges';

export interface Area {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A tile as it stands. */
export interface Box extends Area {
  readonly tile: Tile;
  readonly phase: Phase;
  /** The written share. */
  readonly share: number;
  readonly label: Label | null;
}

export interface Tick {
  readonly at: number;
  readonly text: string;
}

export interface ByteTicks {
  readonly values: readonly number[];
  readonly unit: 'B' | 'KiB' | 'MiB';
  label(value: number): string;
}

/** Bytes that no tile takes in any partition. */
export interface Gaps {
  readonly spans: readonly (readonly [number, number])[];
  readonly total: number;
  readonly largest: number;
}

export interface MapInput {
  /** Tiles at the time, dead ones included. */
  readonly tiles: readonly Tile[];
  readonly time: number;
  readonly shown: Shown;
  readonly area: Area;
  readonly share: (tile: Tile, time: number) => number;
  readonly measure: Measure;
  /** Second line of a label; '' for none. */
  readonly second: (tile: Tile, phase: Phase, share: number) => string;
}

/** A tile is never narrower or lower than this, in pixels. */
const LEAST = 2;
/** Numbers of a byte axis stand at least so far apart. */
const APART = 46;

/** The boxes of a map, dead ones first so that live ones lie on top. */
export function layoutMap(input: MapInput): readonly Box[] {
  const order = { dead: 0, live: 1, writing: 2 };
  const { bytes, rows } = input.shown;
  return input.tiles
    .filter(tile => tile.low < bytes.to && Math.max(tile.high, tile.low + 1) > bytes.from)
    .filter(tile => tile.top < rows.to && tile.bottom > rows.from)
    .map(tile => boxOf(input, tile))
    .sort((a, b) => order[a.phase] - order[b.phase] || a.tile.low - b.tile.low);
}

function boxOf(input: MapInput, tile: Tile): Box {
  const { area, time } = input;
  const { bytes, rows } = input.shown;
  const writing = phaseAt(tile, time) === 'writing';
  const share = writing ? input.share(tile, time) : 1;
  const phase = writing && share >= 1 ? 'live' : phaseAt(tile, time);
  const [from, to] = [xOf(tile.low, bytes, area), xOf(tile.high, bytes, area)];
  const left = Math.round(from);
  const right = Math.round(to);
  const top = yOf(tile.top, rows, area);
  const bottom = yOf(tile.bottom, rows, area);
  // A line of bare ground parts neighbours; dead ones share an edge.
  const apart = phase === 'dead' ? -1 : right - left > 4 ? 1 : 0;
  const width = Math.max(LEAST, right - left - apart);
  const place = { x: left, y: top, width, height: Math.max(LEAST, bottom - top) };
  // By its true width, so that tiles of one size have labels alike.
  const room = { width: to - from, height: place.height };
  const label = placeLabel(tile.buffer.name, input.second(tile, phase, share), room, input.measure);
  return { tile, phase, share, label, ...place };
}

/** Where a byte of a partition stands, at most at the edges. */
export function xOf(byte: number, bytes: Span, area: Area): number {
  return area.x + clamped(shareOf(bytes, byte)) * area.width;
}

/** Where a partition begins, at most at the edges. */
export function yOf(partition: number, rows: Span, area: Area): number {
  return area.y + clamped(shareOf(rows, partition)) * area.height;
}

function clamped(share: number): number {
  return Math.min(Math.max(share, 0), 1);
}

/** What stands at a point: the smallest box there, else the nearest within `halo` pixels. */
export function boxAt<T extends Area>(boxes: readonly T[], x: number, y: number, halo = 6): T | undefined {
  let best: T | undefined;
  let bestKey = Infinity;
  for (const box of boxes) {
    const away = Math.max(box.x - x, x - box.x - box.width, box.y - y, y - box.y - box.height, 0);
    if (away > halo || (away > 0 && Math.min(box.width, box.height) >= halo)) continue;
    const key = away * 1e9 + box.width * box.height;
    if (key < bestKey) [best, bestKey] = [box, key];
  }
  return best;
}

/** The free bytes of [0, capacity). */
export function gapsOf(tiles: readonly Tile[], capacity: number): Gaps {
  const spans: [number, number][] = [];
  let reached = 0;
  for (const tile of [...tiles].sort((a, b) => a.low - b.low)) {
    if (tile.low >= capacity) break;
    if (tile.low > reached) spans.push([reached, tile.low]);
    reached = Math.max(reached, tile.high);
  }
  if (reached < capacity) spans.push([reached, capacity]);
  const sizes = spans.map(([low, high]) => high - low);
  return { spans, total: sizes.reduce((a, b) => a + b, 0), largest: Math.max(0, ...sizes) };
}

/** Bytes in use, or lost to dead tiles, in the fullest partition. */
export function fullest(tiles: readonly Tile[], time: number, dead: boolean): number {
  const events: [number, number][] = [];
  for (const tile of tiles) {
    if ((phaseAt(tile, time) === 'dead') !== dead) continue;
    events.push([tile.top, tile.high - tile.low], [tile.bottom, tile.low - tile.high]);
  }
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let level = 0;
  let most = 0;
  for (const [, change] of events) most = Math.max(most, (level += change));
  return most;
}

/** The right edge of the used range: a round number of bytes that shows all of them, at most all there is. */
export function usedRange(reach: number, capacity: number): number {
  if (reach > capacity) return fullRange(reach, capacity);
  const least = Math.max(reach * 1.04, 64);
  const power = 2 ** Math.floor(Math.log2(least));
  const round = [1, 1.25, 1.5, 1.75, 2].map(factor => factor * power).find(size => size >= least) ?? 2 * power;
  return Math.min(round, capacity);
}

/** The right edge of the full range: the capacity, and what lies beyond it. */
export function fullRange(reach: number, capacity: number): number {
  return reach > capacity ? reach + Math.max((reach - capacity) * 0.1, capacity * 0.02) : capacity;
}

/** Ticks at powers of two, in one unit. */
export function byteTicks({ from, to }: Span, width: number): ByteTicks {
  const shown = to - from;
  let step = 1;
  while ((step / shown) * width < APART && step < shown) step *= 2;
  const size = to >= 8 * 1024 * 1024 ? 1024 * 1024 : to > 2048 ? 1024 : 1;
  const values: number[] = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) values.push(value);
  const unit = size === 1 ? 'B' : size === 1024 ? 'KiB' : 'MiB';
  return { values, unit, label: value => String(Number((value / size).toFixed(3))) };
}

/** The partitions named beside a map: every quadrant, and the last; fewer steps apart where it is zoomed. */
export function partitionTicks({ from, to }: Span, height: number): readonly number[] {
  const shown = to - from;
  let step = height >= 90 ? 32 : 64;
  while (step > 1 && step > shown / 2) step /= 2;
  const values: number[] = [];
  const last = Math.ceil(to) - 1;
  for (let at = Math.ceil(from / step) * step; at < last - step / 2 + 0.5; at += step) values.push(at);
  return [...values, last];
}
