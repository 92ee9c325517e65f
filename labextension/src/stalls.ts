/** The waits worth looking at one after the other. */
import { LAUNCH, pathPieces, WORKS } from './run/path';
import { around } from './views/timeline/zoom';
import type { Rows, Run, Span, Store } from './types';

/** A wait counts from this share of the run on; the longest ones always do. */
export const STALL_SHARE = 0.01;
export const LONGEST_STALLS = 10;
export const STALL_RULE = `waits of engines or of the critical path of 1 % of the run or more, at least the ${LONGEST_STALLS} longest`;

const known = new WeakMap<Rows, Uint32Array>();

/** Steps that wait so long, in order: on an engine, or on the critical path, which may be a DMA queue. */
export function stallSteps(run: Run): Uint32Array {
  let steps = known.get(run.rows);
  if (steps === undefined) known.set(run.rows, (steps = longWaits(run)));
  return steps;
}

function longWaits(run: Run): Uint32Array {
  const { wait, lane, critical, first, count } = run.rows;
  const least = run.makespan * STALL_SHARE;
  const engines = run.lanes.map(one => one.kind === 'engine');
  const onPath = pathWaits(run);
  const enough: number[] = [];
  /** [time, step], the longest first. */
  const longest: [number, number][] = [];
  for (let at = 0; at < count; at++) {
    const path = critical[at] === 1 ? (onPath.get(first + at) ?? 0) : 0;
    const time = Math.max(path, engines[lane[at]] ? wait[at] : 0);
    if (time <= 0) continue;
    if (time >= least) enough.push(first + at);
    if (longest.length === LONGEST_STALLS && time <= longest[LONGEST_STALLS - 1][0]) continue;
    longest.push([time, first + at]);
    longest.sort((one, other) => other[0] - one[0]);
    longest.length = Math.min(longest.length, LONGEST_STALLS);
  }
  if (enough.length >= LONGEST_STALLS) return Uint32Array.from(enough);
  return Uint32Array.from(longest.map(([, step]) => step)).sort();
}

/** What the path waits for before each of its rows; for the launch no row waits. */
function pathWaits(run: Run): Map<number, number> {
  const { count, begin, end, step, reason } = pathPieces(run);
  const times = new Map<number, number>();
  for (let at = 0; at < count; at++) {
    if (reason[at] === WORKS || run.stalls[reason[at]] === LAUNCH) continue;
    times.set(step[at], (times.get(step[at]) ?? 0) + end[at] - begin[at]);
  }
  return times;
}

/** Move the window so that the wait before a step is in it, as far as it fits. */
export function showWait(run: Run, store: Store, step: number): void {
  if (!run.has(step)) return;
  const { start, duration, wait, first } = run.rows;
  const place = step - first;
  const span: Span = { from: start[place] - wait[place], to: start[place] + duration[place] };
  const { window } = store.state;
  if (span.from >= window.from && span.to <= window.to) return;
  const width = window.to - window.from;
  const fits = span.to - span.from < 0.9 * width;
  store.show(fits ? { from: span.to - 0.95 * width, to: span.to + 0.05 * width } : around(span, 0.9));
}
