/** Tiles and runs for the memory view's tests. */
import type { LoadedRun } from '../../src/run';
import type { Measure } from '../../src/views/memory/labels';
import type { Occupancy, Tile } from '../../src/views/memory/occupancy';
import { occupancyOf } from '../../src/views/memory/occupancy';
import { NAMES } from '../messages';
import type { BufferGiven, LifetimeGiven, RowGiven, RunGiven } from '../messages';
import { draws, runOf } from '../timeline/runs';

/** A tile as tests write it; what is left out is all partitions of SBUF from byte 0 on, 1 KiB of each. */
export interface TileGiven {
  readonly space?: 'sbuf' | 'psum';
  readonly top?: number;
  readonly partitions?: number;
  /** -1: no address. */
  readonly byte?: number;
  readonly bytes?: number;
  readonly start: number;
  readonly written?: number;
  readonly end: number;
  readonly writer?: number;
  readonly site?: number;
}

const SPACES = { sbuf: 0, psum: 1 };
/** The name "k" of `NAMES`. */
const K = 3;

/** A run whose buffers are these tiles: k[0], k[1] … for those of SBUF. Each has one view, of its own number. */
export function runWith(tiles: readonly TileGiven[], rows: readonly RowGiven[] = [], given: RunGiven = {}): LoadedRun {
  const names = [...((given.header?.names as readonly string[] | undefined) ?? NAMES)];
  const first = names.length;
  names.push(...labelsOf(tiles, names[K]));
  const buffers = tiles.map((tile, id): BufferGiven => {
    const byte = tile.byte ?? 0;
    const top = byte < 0 ? -1 : (tile.top ?? 0);
    return [
      first + id,
      SPACES[tile.space ?? 'sbuf'],
      0,
      0,
      top,
      tile.partitions ?? 128,
      byte,
      tile.bytes ?? 1024,
      tile.site ?? -1,
    ];
  });
  const lifetimes = tiles.map((tile, id): LifetimeGiven => {
    const used = rows.flatMap((row, step) => (row.accesses?.some(([view]) => view === id) ? [step] : []));
    const [first, last] = [used[0] ?? 0, used.at(-1) ?? -1];
    return [id, tile.start, tile.end, first, last, tile.written ?? tile.start, tile.writer ?? 2];
  });
  const count = tiles.length;
  const zeros = tiles.map(() => 0);
  const views = { buffer: zeros.map((_, id) => id), pattern: zeros, offset: zeros, indirect: zeros };
  const makespan = Math.max(1, ...tiles.map(tile => tile.end), ...rows.map(row => row.start + row.duration));
  const lanes = given.header?.lanes as readonly { readonly core: number }[] | undefined;
  return runOf(rows, {
    buffers,
    lifetimes,
    ...given,
    tables: count > 0 ? { views, ...(count < 100 ? { usage: usageOf(tiles, lanes) } : {}), ...given.tables } : {},
    header: { makespan, ...given.header, names },
  });
}

/** As messages have them: tiles made at one place, of one memory, have numbers. */
function labelsOf(tiles: readonly TileGiven[], name: string): string[] {
  const place = (tile: TileGiven): string => `${tile.space ?? 'sbuf'} ${tile.site ?? -1}`;
  const counts = new Map<string, number>();
  const numbers = tiles.map(tile => {
    const number = counts.get(place(tile)) ?? 0;
    counts.set(place(tile), number + 1);
    return number;
  });
  return tiles.map((tile, id) => (counts.get(place(tile)) === 1 ? name : `${name}[${numbers[id]}]`));
}

/** Live bytes of the fullest partition of each core, as recordings have them. */
function usageOf(
  tiles: readonly TileGiven[],
  lanes: readonly { readonly core: number }[] = [{ core: 0 }],
): Record<'time' | 'core' | 'sbuf' | 'psum', number[]> {
  const out = { time: [] as number[], core: [] as number[], sbuf: [] as number[], psum: [] as number[] };
  for (const core of [...new Set(lanes.map(lane => lane.core))].sort((a, b) => a - b)) {
    const mine = tiles.filter(tile => (lanes[tile.writer ?? 2]?.core ?? 0) === core && (tile.byte ?? 0) >= 0);
    const fullest = (space: 'sbuf' | 'psum', time: number): number => {
      const live = mine.filter(tile => (tile.space ?? 'sbuf') === space && tile.start <= time && time < tile.end);
      const held = (row: number): number =>
        live
          .filter(({ top = 0, partitions = 128 }) => top <= row && row < top + partitions)
          .reduce((sum, { bytes = 1024 }) => sum + bytes, 0);
      return Math.max(0, ...live.map(tile => held(tile.top ?? 0)));
    };
    for (const time of [...new Set([0, ...mine.flatMap(tile => [tile.start, tile.end])])].sort((a, b) => a - b)) {
      out.time.push(time);
      out.core.push(core);
      out.sbuf.push(fullest('sbuf', time));
      out.psum.push(fullest('psum', time));
    }
  }
  return out;
}

export function occupied(tiles: readonly TileGiven[], space: 'sbuf' | 'psum' = 'sbuf'): Occupancy {
  return occupancyOf(runWith(tiles), space, 0);
}

/** Tiles at random places and times. */
export function scattered(count: number, seed: number): readonly TileGiven[] {
  const draw = draws(seed);
  const below = (limit: number): number => Math.floor(draw() * limit);
  return Array.from({ length: count }, () => {
    const start = below(1000);
    const written = start + below(50);
    return {
      top: 32 * below(4),
      partitions: 1 + below(32),
      byte: draw() < 0.05 ? -1 : 64 * below(64),
      bytes: 64 * (1 + below(8)),
      start,
      written,
      end: written + below(200),
    };
  });
}

/** The tile of a buffer. */
export function tileOf(occupancy: Occupancy, id: number): Tile {
  const tile = occupancy.of(id);
  if (tile === undefined) throw new Error(`there is no tile ${id}`);
  return tile;
}

/** Letters of six pixels. */
export const MEASURE: Measure = {
  width: text => 6 * text.length,
  fit: (text, width) => {
    const letters = Math.floor(width / 6);
    if (text.length <= letters) return text;
    return letters < 4 ? '' : `${text.slice(0, letters - 1)}…`;
  },
};
