/** Runs with loops, and of several ranks, for the timeline's tests. */
import type { LoadedRun } from '../../src/run';
import type { RowGiven } from '../messages';
import { runOf } from './runs';

const [I, J] = [4, 5];
const STATES = ['unsettled', 'warm-up', 'steady', 'outlier'];

/** A loop over i whose iterations take so long each, back to back, every one with a row of its own. */
export function loopRun(lengths: readonly number[], states: readonly string[] = []): LoadedRun {
  let time = 0;
  const begins = lengths.map(length => (time += length) - length);
  const rows: RowGiven[] = lengths.map((duration, at) => ({ lane: 1, start: begins[at], duration, iteration: at }));
  const count = lengths.length;
  const column = (value: (at: number) => number): number[] => Array.from({ length: count }, (_, at) => value(at));
  const state = column(at => STATES.indexOf(states[at] ?? 'steady'));
  const iterations = {
    parent: column(() => -1),
    loop: column(() => I),
    value: column(at => at),
    site: column(() => -1),
    in_loop: column(() => 0),
    execution: column(() => 0),
    begin: begins,
    length: [...lengths],
    rows: column(() => 1),
    interval: [...lengths],
    state,
  };
  const end = begins.at(-1)! + lengths.at(-1)!;
  const told = figures({
    iterations: count,
    end,
    warm_up: state.filter(one => one === 1).length,
    outliers: state.filter(one => one === 3).length,
    interval: lengths.at(-1)!,
    representative: Math.max(0, state.indexOf(2)),
  });
  return runOf(rows, { header: { loops: [told] }, tables: { iterations } });
}

export function figures(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return {
    variable: 'i', kind: 'python', parent: -1, depth: 0, core: 0, source: 0, line: 1, executions: 1, iterations: 1,
    begin: 0, end: 1, warm_up: 0, outliers: 0, steady: true, interval: 1, mean: 1500, spread: 500, representative: 0,
    ...given,
  }; // prettier-ignore
}

/** Two iterations of i, each with two of j. */
export function nestedRun(): LoadedRun {
  const rows: RowGiven[] = [0, 1, 2, 3].map(at => ({
    lane: 1,
    start: at * 100_000,
    duration: 100_000,
    iteration: at < 2 ? 1 + at : 2 + at,
  }));
  const iterations = {
    parent: [-1, 0, 0, -1, 3, 3],
    loop: [I, J, J, I, J, J],
    value: [0, 0, 1, 1, 0, 1],
    site: [-1, -1, -1, -1, -1, -1],
    in_loop: [0, 1, 1, 0, 1, 1],
    execution: [0, 1, 1, 0, 2, 2],
    begin: [0, 0, 100_000, 200_000, 200_000, 300_000],
    length: [200_000, 100_000, 100_000, 200_000, 100_000, 100_000],
    rows: [2, 1, 1, 2, 1, 1],
    interval: [200_000, 100_000, 100_000, 200_000, 100_000, 100_000],
    state: [2, 2, 2, 2, 2, 2],
  };
  const loops = [
    figures({ iterations: 2, interval: 200_000, end: 400_000 }),
    figures({ variable: 'j', parent: 0, depth: 1, executions: 2, iterations: 4, interval: 100_000, representative: 1 }),
  ];
  return runOf(rows, { header: { loops }, tables: { iterations } });
}

/** So many ranks with one engine and one queue each; in one call rank `late` sends last, and all receive. */
export function rankRun(ranks: number, late = 0): LoadedRun {
  const numbers = Array.from({ length: ranks }, (_, rank) => rank);
  const lanes = numbers.flatMap(rank => [
    { name: 'vector', kind: 'engine', core: rank, rank },
    { name: 'dma q16', kind: 'dma', core: rank, rank },
  ]);
  const sent = (rank: number): number => (rank === late ? 500_000 : 200_000);
  const rows: RowGiven[] = [
    ...numbers.filter(rank => rank !== late).map(rank => ({ lane: 2 * rank, start: 0, duration: sent(rank) })),
    { lane: 2 * late, start: 0, duration: sent(late) },
    ...numbers.map(rank => ({ lane: 2 * rank + 1, start: 600_000, duration: 100_000 })),
  ];
  const place = (rank: number): number => (rank === late ? ranks - 1 : rank < late ? rank : rank - 1);
  const exchanges = {
    call: numbers.map(() => 0),
    rank: numbers,
    what: numbers.map(() => 6),
    source: numbers.map(() => -1),
    sent: numbers.map(sent),
    sends: numbers.map(place),
    row: numbers.map(rank => ranks + rank),
    bytes: numbers.map(() => 64),
  };
  const told = (of: (rank: number) => number): number[] => numbers.map(of);
  const summary = {
    ranks: {
      count: ranks,
      slowest: late,
      makespan_ns: told(() => 700),
      waits_ns: told(rank => (rank === late ? 0 : 300)),
      awaited_ns: told(rank => (rank === late ? 300 * (ranks - 1) : 0)),
    },
  };
  const core_names = Object.fromEntries(numbers.map(rank => [String(rank), `rank ${rank}`]));
  return runOf(rows, { header: { lanes, summary, core_names }, tables: { exchanges } });
}
