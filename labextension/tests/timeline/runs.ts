/** Runs for the timeline's tests. */
import { createRun } from '../../src/run';
import type { LoadedRun } from '../../src/run';
import { decode } from '../../src/wire';
import { runMessage } from '../messages';
import type { RowGiven, RunGiven } from '../messages';

/** The lanes of `runMessage`: tensor, vector and one queue. */
export const [TENSOR, VECTOR, QUEUE] = [0, 1, 2];

/** A run of rows in order of start; counts of lanes follow from them. */
export function runOf(rows: readonly RowGiven[], given: RunGiven = {}): LoadedRun {
  const lanes = (given.header?.lanes as readonly unknown[] | undefined)?.length ?? 3;
  const end = Math.max(1, ...rows.map(row => row.start + row.duration));
  const times = Array.from({ length: lanes }, (_, lane) => {
    const mine = rows.filter(row => (row.lane ?? 0) === lane);
    const busy = mine.reduce((sum, row) => sum + row.duration, 0);
    return { busy, critical: 0, waits: {}, empty: 0, rows: mine.length };
  });
  const header = { makespan: end, lane_times: times, ...given.header };
  return createRun(decode(runMessage({ ...given, rows, header })));
}

/** Numbers from 0 to 1 that are the same every time. */
export function draws(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Rows of one lane with gaps and waits of very different sizes. */
export function jagged(count: number, seed: number, lane = TENSOR): RowGiven[] {
  const draw = draws(seed);
  let end = 0;
  return Array.from({ length: count }, () => {
    const gap = draw() < 0.5 ? 0 : Math.round(10 ** (4 * draw()));
    const start = end + gap;
    const duration = Math.round(10 ** (5 * draw()));
    const wait = Math.round(gap * draw());
    end = start + duration;
    const setup = Math.round(wait * draw());
    return { lane, start, duration, wait, setup, stall: 1, setupStall: 3, critical: draw() < 0.1 ? 1 : 0 };
  });
}

/** Sixteen queues behind five engines. */
export const QUEUES = {
  lanes: [
    ...['tensor', 'vector', 'scalar', 'gpsimd', 'sync'].map(name => ({ name, kind: 'engine', core: 0 })),
    ...Array.from({ length: 16 }, (_, number) => ({ name: `dma q${number}`, kind: 'dma', core: 0 })),
  ],
};
