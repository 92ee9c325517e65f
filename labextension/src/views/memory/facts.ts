/** What is known of a tile, in words: for the details, the card, the table and copies. */

import * as format from '../../format';
import type { Run } from '../../types';
import { writerOf } from './colour';
import type { Occupancy, Phase, Tile } from './occupancy';
import { phaseAt } from './occupancy';
import { endOf, readersOf } from './uses';

export interface Fact {
  readonly name: string;
  readonly value: string;
  /** Written in the font of code. */
  readonly code?: boolean;
}

export interface TileFacts {
  readonly title: string;
  /** "slot 1 of 3"; '' where its line makes one tile only. */
  readonly slot: string;
  readonly type: string;
  readonly facts: readonly Fact[];
  readonly life: string;
  /** Picoseconds of being written, of use, of being dead. */
  readonly parts: readonly [number, number, number];
  /** Line of source that makes it; 0: unknown. */
  readonly line: number;
}

/** The words for what a tile is at a time. */
export function phaseWords(phase: Phase, share: number): string {
  if (phase === 'writing') return `${format.percent(share)} written`;
  return phase === 'live' ? 'live' : 'dead';
}

/** All facts of a tile. */
export function factsOf(run: Run, occupancy: Occupancy, tile: Tile): TileFacts {
  const { buffer } = tile;
  const site = run.site(buffer.site);
  const facts: Fact[] = [
    addressOf(tile),
    { name: 'Size', value: sizeOf(tile) },
    { name: 'Partitions', value: partitionsOf(tile) },
    { name: 'Written', value: writtenBy(run, tile) },
    ...readFacts(run, tile),
    reuseOf(occupancy, tile),
  ];
  return {
    title: buffer.name,
    slot: slotOf(occupancy, tile),
    type: `${buffer.dtype} ${format.shape(buffer.shape)}`,
    facts,
    life: lifeOf(run, tile),
    parts: partsOf(run, tile),
    line: site?.line ?? 0,
  };
}

function addressOf(tile: Tile): Fact {
  if (!tile.placed) return { name: 'Address', value: 'none: no room was found' };
  return { name: 'Address', value: format.addressRange(tile.low, tile.high - tile.low), code: true };
}

function sizeOf(tile: Tile): string {
  const each = tile.high - tile.low;
  const count = tile.bottom - tile.top;
  return count === 1 ? format.bytes(each) : `${format.bytes(each)} × ${count} = ${format.bytes(each * count)}`;
}

function partitionsOf(tile: Tile): string {
  if (!tile.placed) return format.plural(tile.bottom - tile.top, 'partition');
  return format.range(tile.top, tile.bottom - 1);
}

function writtenBy(run: Run, tile: Tile): string {
  const lane = writerOf(run, tile);
  if (lane === undefined) return 'never';
  return `${span(tile.start, tile.written)}, ${lane.label}`;
}

/** "75.00 → 89.00 µs": the unit once where both have it. */
export function span(from: number, to: number): string {
  const [first, last] = [format.timeParts(from), format.timeParts(to)];
  const start = first.unit === last.unit ? first.value : `${first.value} ${first.unit}`;
  return `${start} → ${last.value} ${last.unit}`;
}

function readFacts(run: Run, tile: Tile): Fact[] {
  const uses = run.uses(tile.buffer.id);
  const readers = readersOf(uses);
  if (readers.length === 0) return [{ name: 'Reads', value: uses.steps.length === 0 ? 'not loaded' : 'none' }];
  const counts = new Map<string, number>();
  let last = 0;
  for (const step of readers) {
    const { name } = run.op(step);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    last = Math.max(last, endOf(run, step));
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const words = sorted.slice(0, 1).map(([name, count]) => `${format.count(count)} × ${name}`);
  if (sorted.length > 1) words.push(`${format.count(readers.length - (sorted[0]?.[1] ?? 0))} more`);
  return [
    { name: 'Reads', value: words.join(', ') },
    { name: 'Last read', value: format.time(last) },
  ];
}

function reuseOf(occupancy: Occupancy, tile: Tile): Fact {
  const next = occupancy.of(tile.next);
  const name = 'Slot reused';
  return { name, value: next === undefined ? 'never' : `${format.time(next.start)} by ${next.buffer.name}` };
}

/** Which of the places that tiles of its line and size take in turn. */
function slotOf(occupancy: Occupancy, tile: Tile): string {
  if (tile.buffer.site < 0 || !tile.placed) return '';
  const places = new Set<number>();
  for (const other of occupancy.tiles) {
    if (other.placed && other.buffer.site === tile.buffer.site) places.add(other.low);
  }
  if (places.size < 2) return '';
  const place = [...places].sort((a, b) => a - b).indexOf(tile.low);
  return `slot ${place + 1} of ${places.size}`;
}

function partsOf(run: Run, tile: Tile): [number, number, number] {
  const gone = Math.min(tile.gone, Math.max(run.makespan, tile.end));
  return [tile.written - tile.start, tile.end - tile.written, Math.max(0, gone - tile.end)];
}

function lifeOf(run: Run, tile: Tile): string {
  const [loading, use, dead] = partsOf(run, tile);
  const alive = loading + use;
  const words = `Alive ${format.time(alive)}`;
  const shares = alive > 0 ? `: ${format.percent(loading / alive)} loading, ${format.percent(use / alive)} in use` : '';
  return words + shares + (dead > 0 ? `, then dead ${format.time(dead)}` : '');
}

/** A row of the table of tiles. */
export function rowOf(run: Run, tile: Tile, time: number, share: number): readonly string[] {
  const lane = writerOf(run, tile);
  return [
    tile.buffer.name,
    phaseWords(share < 1 ? 'writing' : phaseAt(tile, Math.max(time, tile.written)), share),
    tile.placed ? format.addressRange(tile.low, tile.high - tile.low) : 'no room',
    format.bytes(tile.high - tile.low),
    format.range(tile.top, tile.bottom - 1),
    lane?.label ?? '',
  ];
}

export const COLUMNS = ['Tile', 'State', 'Address', 'Per partition', 'Partitions', 'Writer'] as const;
