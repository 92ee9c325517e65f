/** Who writes and reads a tile, and what state that leaves a bank of PSUM in. */

import { countWhile, upper } from '../../run/search';
import type { Run, Uses } from '../../types';
import type { Tile } from './occupancy';
import { phaseAt, writtenAt } from './occupancy';

/** Writes with nothing read between them, and when what they made was read for the last time. */
export interface Group {
  /** Starts of the writes, and when they are visible, each ascending. */
  readonly starts: Float64Array;
  readonly ready: Float64Array;
  /** End of the last read; -1: nothing reads it. */
  readonly drained: number;
  /** Whether a write adds to what is there. */
  readonly adds: boolean;
}

export type BankState =
  | { readonly kind: 'filling'; readonly done: number; readonly of: number; readonly adds: boolean }
  | { readonly kind: 'closed' }
  | { readonly kind: 'drained'; readonly since: number };

/** What the loaded uses of tiles say of them; found when asked for, then kept. */
export interface Usage {
  /** The share of a tile that is written: by its writes, where they are known. */
  written(tile: Tile, time: number): number;
  /** The state of a tile in PSUM. */
  state(tile: Tile, time: number): BankState;
}

export const ROLE_READ = 0;
export const ACCUMULATE = 2;
/** Tiles whose groups are kept. */
const KEPT = 4096;
/** So many writes of a tile are looked at that may be under way. */
const UNDER_WAY = 64;

export function createUsage(run: Run): Usage {
  const known = new Map<number, readonly Group[]>();
  const groupsOf = (tile: Tile): readonly Group[] => {
    let groups = known.get(tile.buffer.id);
    if (groups !== undefined) return groups;
    if (known.size >= KEPT) known.clear();
    known.set(tile.buffer.id, (groups = grouped(run, run.uses(tile.buffer.id))));
    return groups;
  };
  const firsts = new Map<number, Group | undefined>();
  const firstOf = (tile: Tile): Group | undefined => {
    const { id } = tile.buffer;
    if (firsts.has(id)) return firsts.get(id);
    if (firsts.size >= KEPT) firsts.clear();
    const group = grouped(run, run.uses(id), 1).at(0);
    firsts.set(id, group);
    return group;
  };
  return {
    written(tile, time) {
      if (time >= tile.written) return 1;
      const first = firstOf(tile);
      if (first === undefined) return writtenAt(tile, time);
      return progress(first, time);
    },
    state(tile, time) {
      const groups = groupsOf(tile);
      const begun = countWhile(groups.length, place => groups[place].starts[0] <= time);
      return begun === 0 ? byLifetime(tile, time) : stateOf(groups[begun - 1], time);
    },
  };
}

/**
 * Uses parted where a write follows a read; of one step the reads come first. What is read before any write makes no
 * group. Ends after `most` groups.
 */
export function grouped(run: Run, { steps, roles }: Uses, most = Infinity): readonly Group[] {
  const groups: Group[] = [];
  let writes: number[] = [];
  let drained = -1;
  let adds = false;
  const close = (): void => {
    if (writes.length > 0) groups.push(groupOf(run, writes, drained, adds));
    writes = [];
    drained = -1;
    adds = false;
  };
  for (let place = 0; place < steps.length;) {
    const step = steps[place];
    const mine: number[] = [];
    for (; place < steps.length && steps[place] === step; place++) mine.push(roles[place]);
    if (mine.includes(ROLE_READ) && writes.length > 0) drained = Math.max(drained, endOf(run, step));
    const made = mine.filter(role => role !== ROLE_READ);
    if (made.length === 0) continue;
    if (drained >= 0) close();
    if (groups.length >= most) return groups;
    writes.push(step);
    adds ||= made.includes(ACCUMULATE);
  }
  close();
  return groups;
}

function groupOf(run: Run, writes: readonly number[], drained: number, adds: boolean): Group {
  const starts = Float64Array.from(writes, step => startOf(run, step));
  return { starts, ready: Float64Array.from(writes, step => readyOf(run, step)).sort(), drained, adds };
}

/** The mean share of a group's writes that is over. */
function progress({ starts, ready }: Group, time: number): number {
  const done = upper(ready, ready.length, time);
  const begun = upper(starts, starts.length, time);
  let running = 0;
  for (let place = done; place < Math.min(begun, done + UNDER_WAY); place++) {
    running += (time - starts[place]) / Math.max(1, ready[place] - starts[place]);
  }
  return (done + Math.min(Math.max(running, 0), begun - done)) / ready.length;
}

function stateOf({ ready, drained, adds }: Group, time: number): BankState {
  const done = upper(ready, ready.length, time);
  if (done < ready.length) return { kind: 'filling', done, of: ready.length, adds };
  return drained >= 0 && drained <= time ? { kind: 'drained', since: drained } : { kind: 'closed' };
}

/** What a lifetime alone can say. */
function byLifetime(tile: Tile, time: number): BankState {
  const phase = phaseAt(tile, time);
  if (phase === 'writing') return { kind: 'filling', done: 0, of: 1, adds: false };
  return phase === 'live' ? { kind: 'closed' } : { kind: 'drained', since: tile.end };
}

/** The steps that read a tile, in their order, each once. */
export function readersOf({ steps, roles }: Uses): readonly number[] {
  const readers: number[] = [];
  steps.forEach((step, place) => {
    if (roles[place] === ROLE_READ && readers.at(-1) !== step) readers.push(step);
  });
  return readers;
}

function startOf(run: Run, step: number): number {
  return run.rows.start[step - run.rows.first];
}

export function endOf(run: Run, step: number): number {
  return startOf(run, step) + run.rows.duration[step - run.rows.first];
}

function readyOf(run: Run, step: number): number {
  return run.rows.ready[step - run.rows.first];
}
