/**
 * The critical path as pieces of time that follow each other without a gap: the launch, then of each row its wait, its
 * preparation, what made it longer than its work, and its work. Sums by reason are those of the message's `path`.
 */
import { DATA_FROM, PACE, STALLS } from '../_generated/schema';
import type { Rows, Run } from '../types';

/** A piece of the path; columns of equal length in order of time. */
export interface PathPieces {
  readonly count: number;
  readonly begin: Float64Array;
  readonly end: Float64Array;
  /** The row that works or waits; of the launch the first one, of the end the last one. */
  readonly step: Int32Array;
  /** Number of the reason waited for; `WORKS` for work. */
  readonly reason: Int16Array;
}

/** Stands for work in place of a reason. */
export const WORKS = -1;

/** The reason before the first row and after the last result. */
export const LAUNCH = 'launch';

const known = new WeakMap<Rows, PathPieces>();

/** The pieces of the loaded part of the path; made once for the same rows. */
export function pathPieces(run: Run): PathPieces {
  let found = known.get(run.rows);
  if (found === undefined) known.set(run.rows, (found = made(run)));
  return found;
}

class Builder {
  private readonly begins: number[] = [];
  private readonly ends: number[] = [];
  private readonly steps: number[] = [];
  private readonly reasons: number[] = [];

  add(begin: number, length: number, step: number, reason: number): number {
    if (length <= 0) return begin;
    this.begins.push(begin);
    this.ends.push(begin + length);
    this.steps.push(step);
    this.reasons.push(reason);
    return begin + length;
  }

  pieces(): PathPieces {
    return {
      count: this.begins.length,
      begin: Float64Array.from(this.begins),
      end: Float64Array.from(this.ends),
      step: Int32Array.from(this.steps),
      reason: Int16Array.from(this.reasons),
    };
  }
}

function made(run: Run): PathPieces {
  const { rows, criticalPath: steps } = run;
  const builder = new Builder();
  if (steps.length === 0) return builder.pieces();
  const launch = Math.max(0, run.stalls.indexOf(LAUNCH));
  const byResult = run.stalls.map(isByResult);
  const begins = takeovers(run, byResult);
  if (isFirst(rows)) builder.add(0, begins[0], steps[0], launch);
  for (let at = 0; at < steps.length; at++) {
    const place = steps[at] - rows.first;
    const end = rows.start[place] + rows.duration[place];
    const last = at + 1 === steps.length;
    const until = Math.max(begins[at], !last ? begins[at + 1] : isLast(run) ? rows.ready[place] : end);
    addRow(builder, rows, place, begins[at], until);
    if (last && isLast(run)) builder.add(until, run.makespan - until, steps[at], launch);
  }
  return builder.pieces();
}

/** A row takes over when the one before it lets it go: with its result, or with its lane. */
function takeovers(run: Run, byResult: readonly boolean[]): Float64Array {
  const { rows, criticalPath: steps } = run;
  const { start, duration, ready, wait, stall, first } = rows;
  const begins = new Float64Array(steps.length);
  let latest = 0;
  for (let at = 0; at < steps.length; at++) {
    const place = steps[at] - first;
    let begin: number;
    if (at > 0) {
      const before = steps[at - 1] - first;
      begin = byResult[stall[place]] ? ready[before] : start[before] + duration[before];
    } else begin = isFirst(rows) ? launchOf(run) : start[place] - wait[place];
    latest = Math.max(latest, Math.min(begin, start[place]));
    begins[at] = latest;
  }
  return begins;
}

/** Waits come before the work. */
function addRow(builder: Builder, rows: Rows, place: number, begin: number, until: number): void {
  const step = rows.first + place;
  const start = Math.min(Math.max(rows.start[place], begin), until);
  const own = Math.ceil((rows.duration[place] * Math.round(rows.pace[place] * PACE)) / PACE);
  const throttled = Math.min(rows.duration[place] - own, until - start);
  const setup = Math.min(rows.setup[place], start - begin);
  let time = builder.add(begin, start - begin - setup, step, rows.stall[place]);
  time = builder.add(time, setup, step, rows.setupStall[place]);
  time = builder.add(time, throttled, step, rows.held[place]);
  builder.add(time, until - time, step, WORKS);
}

function isByResult(name: string): boolean {
  return STALLS[name]?.byResult ?? name.startsWith(DATA_FROM);
}

function isFirst(rows: Rows): boolean {
  return rows.first === 0;
}

function isLast({ rows, steps }: Run): boolean {
  return rows.first + rows.count >= steps;
}

function launchOf(run: Run): number {
  const launch = run.summary.launch_ns;
  return typeof launch === 'number' && Number.isFinite(launch) ? Math.round(launch * 1000) : 0;
}
