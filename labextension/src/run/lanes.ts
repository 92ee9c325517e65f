/** The rows of a lane in order of start, and running sums of its work and waits, so that any bucket is two searches. */

import type { Buckets, Rows } from '../types';
import { counts, floats } from './grow';
import type { Growing } from './grow';
import { lower, upper, upperFrom } from './search';

/**
 * Disjoint stretches of time in order, with their amounts added up: `sum[i]` lies before stretch i. An amount is the
 * length of its stretch, or, where all are of one `width`, spread evenly over it.
 */
export class Stretches {
  readonly begin = floats();
  readonly sum = floats();

  constructor(private readonly width = 0) {
    this.sum.push(0);
  }

  push(begin: number, amount: number): void {
    this.begin.push(begin);
    this.sum.push(this.sum.values[this.sum.length - 1] + amount);
  }

  /** Lengthen the last one by an amount. */
  extend(amount: number): void {
    this.sum.values[this.sum.length - 1] += amount;
  }

  /** The amount that lies before a time. */
  before(time: number): number {
    return this.covered(upper(this.begin.values, this.begin.length, time), time);
  }

  /** The amount that lies before a time, where `before` of the stretches begin at or before it. */
  covered(before: number, time: number): number {
    if (before === 0) return 0;
    const sum = this.sum.values;
    const last = sum[before - 1];
    const rate = this.width === 0 ? 1 : (sum[before] - last) / this.width;
    return Math.min(last + (time - this.begin.values[before - 1]) * rate, sum[before]);
  }

  /** Call `visit` with each bucket and what of the stretches lies in it. */
  sweep(edges: Float64Array, visit: (bucket: number, amount: number) => void): void {
    const begin = this.begin.values;
    const count = this.begin.length;
    if (count === 0 || edges[edges.length - 1] <= begin[0]) return;
    let place = upper(begin, count, edges[0]);
    let earlier = this.covered(place, edges[0]);
    for (let bucket = 0; bucket + 1 < edges.length; bucket++) {
      const edge = edges[bucket + 1];
      place = upperFrom(begin, count, place, edge);
      const now = this.covered(place, edge);
      if (now > earlier) visit(bucket, now - earlier);
      earlier = now;
      if (place === count && now === this.sum.values[count]) return;
    }
  }
}

/** Work in `out.busy`, and the waits by reason in `out.waiting`, with the reason for most of each in `out.cause`. */
export function addTimes(out: Buckets, edges: Float64Array, work: Stretches, waits: Map<number, Stretches>): void {
  work.sweep(edges, (bucket, amount) => (out.busy[bucket] = amount));
  const most = new Float64Array(out.count);
  for (const [reason, stretches] of waits)
    stretches.sweep(edges, (bucket, amount) => {
      out.waiting[bucket] += amount;
      if (amount > most[bucket] || (amount === most[bucket] && reason < out.cause[bucket])) {
        most[bucket] = amount;
        out.cause[bucket] = reason;
      }
    });
}

/** The time in which any of several lanes executes. */
export class Together {
  private readonly stretches = new Stretches();
  private end = -Infinity;

  /** Add a row; rows come in the order of their starts. */
  push(start: number, duration: number): void {
    const end = start + duration;
    if (end <= this.end || duration === 0) return;
    if (start <= this.end) this.stretches.extend(end - this.end);
    else this.stretches.push(start, duration);
    this.end = end;
  }

  between(from: number, to: number): number {
    return this.stretches.before(to) - this.stretches.before(from);
  }
}

export class LaneRows {
  /** Steps in order of start; of equal starts the one that takes no time comes first. */
  readonly steps = counts();
  private readonly work = new Stretches();
  private readonly waits = new Map<number, Stretches>();
  /** Begins and ends of rows on the critical path. */
  private readonly criticalBegin = floats();
  private readonly criticalEnd = floats();

  get starts(): Growing<Float64Array> {
    return this.work.begin;
  }

  /** Add the row at place `at`; rows come in the order of steps. */
  push(rows: Rows, at: number): void {
    const start = rows.start[at];
    const duration = rows.duration[at];
    const wait = rows.wait[at];
    const setup = rows.setup[at];
    this.pushWait(rows.stall[at], start - wait, wait - setup);
    this.pushWait(rows.setupStall[at], start - setup, setup);
    if (rows.critical[at] === 1) {
      this.criticalBegin.push(start);
      this.criticalEnd.push(start + duration);
    }
    const { begin, sum } = this.work;
    let place = begin.length;
    const takesTime = (i: number): boolean => sum.values[i + 1] > sum.values[i];
    while (duration === 0 && place > 0 && begin.values[place - 1] === start && takesTime(place - 1)) place--;
    if (place === begin.length) {
      this.steps.push(rows.first + at);
      this.work.push(start, duration);
    } else {
      this.steps.insert(place, rows.first + at);
      begin.insert(place, start);
      sum.insert(place, sum.values[place]);
    }
  }

  private pushWait(reason: number, begin: number, length: number): void {
    if (length <= 0) return;
    let stretches = this.waits.get(reason);
    if (stretches === undefined) this.waits.set(reason, (stretches = new Stretches()));
    stretches.push(begin, length);
  }

  /** The last step that starts at or before a time; -1: none. */
  at(time: number): number {
    const place = upper(this.starts.values, this.starts.length, time);
    return place === 0 ? -1 : this.steps.values[place - 1];
  }

  buckets(from: number, to: number, count: number): Buckets {
    const edges = edgesOf(from, to, count);
    const out = emptyBuckets(from, to, count);
    addTimes(out, edges, this.work, this.waits);
    this.countRows(edges, out.rows);
    this.markCritical(edges, out.critical);
    return out;
  }

  private countRows(edges: Float64Array, out: Uint32Array): void {
    const starts = this.starts.values;
    let before = lower(starts, this.starts.length, edges[0]);
    for (let bucket = 0; bucket < out.length && before < this.starts.length; bucket++) {
      const edge = edges[bucket + 1];
      let until = upperFrom(starts, this.starts.length, before, edge);
      while (until > before && starts[until - 1] === edge) until--;
      out[bucket] = until - before;
      before = until;
    }
  }

  private markCritical(edges: Float64Array, out: Uint8Array): void {
    const begin = this.criticalBegin;
    const end = this.criticalEnd.values;
    let place = 0;
    for (let bucket = 0; bucket < out.length; bucket++) {
      place = upperFrom(begin.values, begin.length, place, edges[bucket + 1]);
      let last = place - 1;
      while (last >= 0 && begin.values[last] === edges[bucket + 1]) last--;
      // A row that takes no time lies in the bucket that it starts in.
      if (last >= 0 && (end[last] > edges[bucket] || begin.values[last] >= edges[bucket])) out[bucket] = 1;
    }
  }
}

/** Edges of `count` equal buckets. */
export function edgesOf(from: number, to: number, count: number): Float64Array {
  const edges = new Float64Array(count + 1);
  for (let i = 0; i <= count; i++) edges[i] = from + ((to - from) * i) / count;
  return edges;
}

export function emptyBuckets(from: number, to: number, count: number): Buckets {
  return {
    width: (to - from) / count,
    from,
    count,
    busy: new Float64Array(count),
    waiting: new Float64Array(count),
    cause: new Uint8Array(count),
    rows: new Uint32Array(count),
    critical: new Uint8Array(count),
  };
}
