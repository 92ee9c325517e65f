/** Lanes with more than one instruction per pixel over most of the window: exact sums, a column for each pixel. */
import type { Buckets, Run } from '../../types';
import { layoutBars, type LaneBars, touching } from './bars';
import type { Scale } from './zoom';

export interface Columns {
  /** One bucket per pixel. */
  readonly sums: Buckets;
  /** Rows that start within the window. */
  readonly count: number;
}

/** What a lane shows: exactly one of the two is there. */
export interface LaneFigure {
  readonly lane: number;
  /** Busy share of the part of the run in the window. */
  readonly busy: number;
  readonly bars: LaneBars | null;
  readonly columns: Columns | null;
}

export function layoutLane(run: Run, lane: number, scale: Scale): LaneFigure {
  const whole = run.buckets(lane, scale.from, scale.to, 1);
  const busy = share(run, whole.busy[0], scale);
  const steps = run.laneSteps(lane);
  const [begin, end] = touching(run, steps, scale.from, scale.to);
  const loaded = end - begin >= whole.rows[0];
  if (loaded && end - begin <= scale.width) {
    return { lane, busy, bars: layoutBars(run, lane, steps, scale), columns: null };
  }
  const sums = run.buckets(lane, scale.from, scale.to, pixels(scale));
  if (loaded && !dense(sums.rows)) return { lane, busy, bars: layoutBars(run, lane, steps, scale), columns: null };
  return { lane, busy, bars: null, columns: { sums, count: whole.rows[0] } };
}

/** True if most pixels have more than one row. */
export function dense(rows: Uint32Array): boolean {
  let full = 0;
  for (const starting of rows) if (starting > 1) full++;
  return 2 * full > rows.length;
}

export function pixels(scale: Scale): number {
  return Math.max(1, Math.round(scale.width));
}

/** A time as a share of the window, as far as the run lies in it: a margin around the run changes no share. */
export function share(run: Run, time: number, scale: Scale): number {
  const within = Math.min(run.makespan, scale.to) - Math.max(0, scale.from);
  return within > 0 ? Math.min(1, Math.max(0, time / within)) : 0;
}

/** Several lanes added up, as the DMA queues are: busy and waiting are shares of one lane's time, capped at it. */
export function together(parts: readonly Buckets[]): Buckets {
  const one = parts[0];
  const busy = new Float64Array(one.count);
  const waiting = new Float64Array(one.count);
  const longest = new Float64Array(one.count);
  const cause = new Uint8Array(one.count);
  const rows = new Uint32Array(one.count);
  const critical = new Uint8Array(one.count);
  for (const part of parts) {
    for (let at = 0; at < one.count; at++) {
      busy[at] += part.busy[at];
      waiting[at] += part.waiting[at] / parts.length;
      rows[at] += part.rows[at];
      critical[at] |= part.critical[at];
      if (part.waiting[at] > longest[at]) {
        longest[at] = part.waiting[at]!;
        cause[at] = part.cause[at]!;
      }
    }
  }
  for (let at = 0; at < one.count; at++) busy[at] = Math.min(busy[at], one.width);
  return { width: one.width, from: one.from, count: one.count, busy, waiting, cause, rows, critical };
}
