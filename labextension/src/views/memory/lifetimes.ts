/** Where everything of the lifetimes stands: time to the right, addresses down, for one class of partitions. */

import type { Span } from '../../types';
import type { PartitionClass } from './classes';
import type { Measure } from './labels';
import { shorten } from './labels';
import type { Area } from './map';
import type { Tile } from './occupancy';
import { shareOf } from './ranges';

/** A tile over its time; the three ends are pixels: being written up to `written`, live to `end`, dead to the right. */
export interface Bar extends Area {
  readonly tile: Tile;
  readonly written: number;
  readonly end: number;
  /** On its live part; on all of it if there is room only there; '' if nowhere. */
  readonly label: string;
  readonly labelled: 'live' | 'all';
  /** Words for the dead time; '' if they do not fit. */
  readonly deadLabel: string;
}

/** Bars too narrow to be told apart, at one address. */
export interface Block extends Area {
  readonly tile: Tile;
  readonly count: number;
  /** Share of its width that the tiles were in use. */
  readonly busy: number;
  readonly label: string;
}

/** A tile whose bytes were given away before its last read. */
export interface Early {
  readonly x: number;
  readonly y: number;
  readonly tile: Tile;
  /** By how much, in picoseconds. */
  readonly by: number;
}

export interface Chart {
  readonly bars: readonly Bar[];
  readonly blocks: readonly Block[];
  readonly early: readonly Early[];
}

export interface ChartInput {
  readonly tiles: readonly Tile[];
  readonly window: Span;
  readonly partitions: PartitionClass | undefined;
  /** Bytes from the upper to the lower edge. */
  readonly bytes: Span;
  readonly area: Area;
  readonly measure: Measure;
  readonly deadWords: (time: number) => string;
  /** End of the run: nothing is dead beyond it. */
  readonly makespan: number;
  /** Whether a finding says that memory was given away too early. */
  readonly clobbered: boolean;
  readonly start: (buffer: number) => number;
}

/** Narrower bars become part of a block; blocks join over smaller gaps; counts need so much width. */
const OWN = 3.2;
const JOIN = 1.2;
const COUNTED = 24;
/** The least height of a bar, and of one with a text. */
const LEAST = 1;
const TEXT = 11;

interface Growing {
  tile: Tile;
  x: number;
  right: number;
  count: number;
  busy: number;
}

/** So many tiles are laid out between two breaks. */
const STRETCH = 2048;

/** The chart of many tiles, with breaks in which a page can do something else. */
export function* layoutLifetimes(input: ChartInput): Generator<undefined, Chart> {
  const { window, area } = input;
  const last = Math.min(window.to, input.makespan);
  const scale = area.width / Math.max(1, window.to - window.from);
  const x = (time: number): number => area.x + (Math.min(Math.max(time, window.from), window.to) - window.from) * scale;
  const bars: Bar[] = [];
  const blocks: Block[] = [];
  const growing = new Map<number, Growing>();
  let laid = 0;
  for (const tile of input.tiles) {
    if (++laid % STRETCH === 0) yield undefined;
    if (tile.low >= input.bytes.to || tile.high <= input.bytes.from || !within(tile, input.partitions)) continue;
    const left = x(tile.start);
    const right = x(Math.min(tile.gone, last));
    if ((Math.min(tile.gone, last) - tile.start) * scale >= OWN) {
      bars.push(barOf(input, tile, left, x(tile.written), x(tile.end), right));
      continue;
    }
    const key = placeOf(input, tile);
    const busy = x(tile.end) - left;
    const open = growing.get(key);
    if (open !== undefined && left - open.right < JOIN) {
      open.right = Math.max(open.right, right);
      open.count += 1;
      open.busy += busy;
      continue;
    }
    if (open !== undefined) blocks.push(blockOf(input, open));
    growing.set(key, { tile, x: left, right, count: 1, busy });
  }
  for (const open of growing.values()) blocks.push(blockOf(input, open));
  return { bars, blocks, early: input.clobbered ? earlyOf(input, x) : [] };
}

/** Where a number of bytes stands, at most at the edges. */
export function byteY(bytes: number, shown: Span, area: Area): number {
  return area.y + Math.min(Math.max(shareOf(shown, bytes), 0), 1) * area.height;
}

/** A number that tiles of one place on the screen share, to half a pixel. */
function placeOf({ bytes, area }: ChartInput, tile: Tile): number {
  const top = Math.round(2 * byteY(tile.low, bytes, area));
  return top * 65_536 + Math.round(2 * byteY(tile.high, bytes, area)) - top;
}

function within(tile: Tile, partitions: PartitionClass | undefined): boolean {
  return partitions === undefined || (tile.top < partitions.to && tile.bottom > partitions.from);
}

function vertical(input: ChartInput, tile: Tile): { y: number; height: number } {
  const y = byteY(tile.low, input.bytes, input.area);
  const height = byteY(tile.high, input.bytes, input.area) - y;
  return { y, height: Math.max(LEAST, height > 5 ? height - 1 : height) };
}

function barOf(input: ChartInput, tile: Tile, x: number, written: number, end: number, right: number): Bar {
  const place = { x, width: Math.max(1, right - x), ...vertical(input, tile) };
  const tall = place.height >= TEXT;
  const { measure } = input;
  const live = tall ? shorten(tile.buffer.name, end - written - 8, measure) : '';
  const all = tall && live !== tile.buffer.name ? shorten(tile.buffer.name, end - x - 8, measure) : '';
  const better = all.length > live.length;
  const dead = tall && right - end >= COUNTED ? input.deadWords(Math.min(tile.gone, input.makespan) - tile.end) : '';
  return {
    tile,
    written,
    end,
    label: better ? all : live,
    labelled: better ? 'all' : 'live',
    deadLabel: dead !== '' && measure.width(dead) <= right - end - 8 ? dead : '',
    ...place,
  };
}

function blockOf(input: ChartInput, open: Growing): Block {
  const width = Math.max(1, open.right - open.x);
  const place = { x: open.x, width, ...vertical(input, open.tile) };
  const label = open.count > 1 && width >= COUNTED && place.height >= TEXT ? String(open.count) : '';
  return { tile: open.tile, count: open.count, busy: Math.min(1, open.busy / width), label, ...place };
}

function earlyOf(input: ChartInput, x: (time: number) => number): Early[] {
  const out: Early[] = [];
  for (const tile of input.tiles) {
    if (tile.next < 0 || !within(tile, input.partitions)) continue;
    const start = input.start(tile.next);
    if (start >= tile.end || start < input.window.from || start > input.window.to) continue;
    const { y, height } = vertical(input, tile);
    out.push({ x: x(start), y: y + height / 2, tile, by: tile.end - start });
  }
  return out;
}
