/** Which tiles lie in a memory at a time, from an index that is made once for a run. */

import { upper } from '../../run/search';
import type { Buffer, Run } from '../../types';

/** A tile in use, with its place. Bytes and partitions end before `high` and `bottom`; times are picoseconds. */
export interface Tile {
  readonly buffer: Buffer;
  readonly low: number;
  readonly high: number;
  readonly top: number;
  readonly bottom: number;
  readonly start: number;
  readonly written: number;
  readonly end: number;
  /** When other tiles have its bytes; Infinity: never. Between `end` and this it is dead. */
  readonly gone: number;
  /** The tile that takes its bytes; -1: none. */
  readonly next: number;
  /** False where the allocator found no room: then the bytes lie beyond the memory, only to be seen. */
  readonly placed: boolean;
}

export type Phase = 'writing' | 'live' | 'dead';

/** The tiles of a memory over the run. */
export interface Occupancy {
  /** In order of start. */
  readonly tiles: readonly Tile[];
  /** Tiles that are in use and have no address, in order of start. */
  readonly homeless: readonly Buffer[];
  /** Where the highest byte ends that a tile with an address takes, and since when. */
  readonly highWater: { readonly bytes: number; readonly time: number };
  /** Where the highest byte ends, with the tiles that found no room. */
  readonly reach: number;
  /** The tiles that are there at a time, dead ones included. */
  at(time: number): Tile[];
  /** The tiles that are there at some time of [from, to]. */
  between(from: number, to: number): Tile[];
  /** The tile of a buffer. */
  of(buffer: number): Tile | undefined;
}

/** More tiles without room than this are told, not drawn. */
const DRAWN_HOMELESS = 2000;
const SPACING = 256;

/** What a tile is at a time between its start and its going. */
export function phaseAt(tile: Tile, time: number): Phase {
  if (time < tile.written) return 'writing';
  return time < tile.end ? 'live' : 'dead';
}

/** The share of a tile that is there, if it is written evenly. */
export function writtenAt(tile: Tile, time: number): number {
  if (time >= tile.written) return 1;
  return Math.max(0, (time - tile.start) / (tile.written - tile.start));
}

/** The index of a core's memory. Takes time in proportion to the number of its tiles. */
export function occupancyOf(run: Run, space: 'sbuf' | 'psum', core: number): Occupancy {
  const capacity = run.capacity[space];
  const mine = run.buffers.filter(buffer => buffer.space === space && buffer.core === core);
  const used = mine.filter(buffer => buffer.lifetime !== null);
  used.sort((a, b) => begin(a) - begin(b) || a.id - b.id);
  const placed = used.filter(buffer => buffer.byte >= 0 && buffer.partition >= 0);
  const homeless = placed.length === used.length ? [] : used.filter(b => b.byte < 0 || b.partition < 0);
  const drafts = placed.map(buffer => draftOf(buffer, buffer.byte, buffer.partition, true));
  const highWater = { bytes: 0, time: 0 };
  for (const tile of drafts) {
    if (tile.high > highWater.bytes) Object.assign(highWater, { bytes: tile.high, time: tile.start });
  }
  if (placed.length > 0 && homeless.length <= DRAWN_HOMELESS) {
    drafts.push(...beyond(homeless, Math.max(capacity, highWater.bytes)));
    drafts.sort((a, b) => a.start - b.start || a.buffer.id - b.buffer.id);
  }
  const reach = drafts.reduce((most, tile) => Math.max(most, tile.high), 0);
  evict(drafts, reach);
  return { ...stabbing(drafts), homeless, highWater, reach };
}

type Draft = { -readonly [Name in keyof Tile]: Tile[Name] };

function begin(buffer: Buffer): number {
  return buffer.lifetime === null ? 0 : buffer.lifetime.start;
}

function draftOf(buffer: Buffer, byte: number, partition: number, placed: boolean): Draft {
  const life = buffer.lifetime;
  const start = life === null ? 0 : life.start;
  const end = life === null ? 0 : Math.max(life.end, life.start);
  return {
    buffer,
    low: byte,
    high: byte + buffer.partitionBytes,
    top: partition,
    bottom: partition + buffer.partitions,
    start,
    written: life === null ? 0 : Math.min(Math.max(life.written, start), end),
    end,
    gone: placed ? Infinity : end,
    next: -1,
    placed,
  };
}

/** Places above `floor` for tiles without any: the lowest that is free while they live. */
function beyond(homeless: readonly Buffer[], floor: number): Draft[] {
  const out: Draft[] = [];
  let living: Draft[] = [];
  for (const buffer of homeless) {
    const start = begin(buffer);
    living = living.filter(other => other.end > start);
    let low = floor;
    for (const other of living) {
      if (other.low - low >= buffer.partitionBytes) break;
      low = Math.max(low, other.high);
    }
    const tile = draftOf(buffer, low, Math.max(buffer.partition, 0), false);
    out.push(tile);
    living.push(tile);
    living.sort((a, b) => a.low - b.low);
  }
  return out;
}

/** Sets `gone` and `next` of each tile whose bytes a later one takes. */
function evict(tiles: readonly Draft[], reach: number): void {
  // Segments of bytes, each with the tiles that lie in all of it and are not gone: `edges[i]` begins `lists[i]`.
  const edges: number[] = [0, Math.max(1, reach)];
  const lists: Draft[][] = [[]];
  const cut = (byte: number): number => {
    const place = upper(edges, edges.length, byte) - 1;
    if (edges[place] === byte) return place;
    edges.splice(place + 1, 0, byte);
    lists.splice(place + 1, 0, lists[place] ?? []);
    return place + 1;
  };
  for (const tile of tiles) {
    if (!tile.placed || tile.high <= tile.low) continue;
    const first = cut(tile.low);
    const last = cut(tile.high);
    let alone = true;
    for (let place = first; place < last; place++) {
      const kept = (lists[place] ?? []).filter(other => !gives(other, tile));
      kept.push(tile);
      alone &&= kept.length === 1;
      lists[place] = kept;
    }
    if (alone && last - first > 1) {
      edges.splice(first + 1, last - first - 1);
      lists.splice(first + 1, last - first - 1);
    }
  }
}

/** Whether `old` has no bytes left to defend once `tile` has begun; notes who took them. */
function gives(old: Draft, tile: Draft): boolean {
  if (old.gone < Infinity) return old.gone <= tile.start;
  if (old.low >= tile.high || tile.low >= old.high || old.top >= tile.bottom || tile.top >= old.bottom) return false;
  old.next = tile.buffer.id;
  old.gone = Math.max(old.end, tile.start);
  return old.gone <= tile.start;
}

/** Tiles by time: who is there at each 256th start is kept, the rest is found from there. */
function stabbing(tiles: readonly Tile[]): Pick<Occupancy, 'tiles' | 'at' | 'between' | 'of'> {
  const starts = Float64Array.from(tiles, tile => tile.start);
  const byBuffer = new Map(tiles.map(tile => [tile.buffer.id, tile]));
  const marks: (readonly Tile[])[] = [];
  const places: number[] = [];
  let here: Tile[] = [];
  let fresh = 0;
  tiles.forEach((tile, place) => {
    // A mark costs as much as it holds: with many tiles at once they stand further apart.
    if (place === 0 || place - fresh >= Math.max(SPACING, here.length / 4)) {
      here = here.filter(other => other.gone > tile.start);
      marks.push(here.slice());
      places.push(place);
      fresh = place;
    }
    here.push(tile);
  });
  const between = (from: number, to: number): Tile[] => {
    const end = upper(starts, starts.length, to);
    const mark = upper(places, places.length, Math.max(0, upper(starts, starts.length, from) - 1)) - 1;
    const found = (marks[mark] ?? []).filter(tile => tile.gone > from);
    for (let place = places[mark] ?? 0; place < end; place++) {
      const tile = tiles[place];
      if (tile !== undefined && tile.gone > from) found.push(tile);
    }
    return found;
  };
  return { tiles, between, at: time => between(time, time), of: buffer => byBuffer.get(buffer) };
}
