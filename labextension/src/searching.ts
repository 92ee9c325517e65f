/** The one search of a visualizer: the timeline marks what it finds, the table lists it. */
import { parseFilter } from './filter';
import { lower, upper } from './run/search';
import type { Found, Run, Store } from './types';

/** Rows that are looked at before the page may draw again. */
const SLICE = 40_000;

export interface Searching {
  /** Search again: there are other rows. */
  again(): void;
  dispose(): void;
}

/** Keeps `found` up with `query`: many rows in slices, so that typing goes on. */
export function createSearching(runOf: () => Run, store: Store): Searching {
  let work = 0;
  const search = (): void => {
    clearTimeout(work);
    const { query } = store.state;
    const run = runOf();
    const { problem, accepts } = parseFilter(run, query);
    if (problem !== '' || accepts === null) {
      store.set({ found: problem === '' ? null : { query, problem, progress: 1, steps: new Uint32Array(0) } });
      return;
    }
    const { first, count } = run.rows;
    const steps: number[] = [];
    let place = 0;
    const slice = (): void => {
      const end = Math.min(place + SLICE, count);
      for (; place < end; place += 1) if (accepts(first + place)) steps.push(first + place);
      const isDone = place >= count;
      const found: Found = {
        query,
        problem,
        progress: isDone ? 1 : place / count,
        steps: Uint32Array.from(isDone ? steps : []),
      };
      store.set({ found });
      if (!isDone) work = window.setTimeout(slice);
    };
    slice();
  };
  const stop = store.listen((_, changes) => {
    if (changes.has('query')) search();
  });
  return {
    again() {
      if (store.state.query !== '') search();
    },
    dispose() {
      clearTimeout(work);
      stop();
    },
  };
}

/** The next of some ascending steps after one, or the previous before it; -1: there is none. */
export function beyond(steps: Uint32Array, from: number, by: 1 | -1): number {
  const place = by > 0 ? upper(steps, steps.length, from) : lower(steps, steps.length, from) - 1;
  return steps[place] ?? -1;
}
