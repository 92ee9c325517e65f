/** Sums of the whole run over stretches of time, for the parts whose rows are not loaded. */

import type { Buckets } from '../types';
import type { Message } from '../wire';
import { edgesOf, emptyBuckets } from './lanes';
import { upper, upperFrom } from './search';

/** Stretches of one width with an amount each, spread evenly over it; those without any are left out. */
class Amounts {
  private readonly begin: number[] = [];
  private readonly sum: number[] = [0];

  constructor(private readonly width: number) {}

  push(begin: number, amount: number): void {
    this.begin.push(begin);
    this.sum.push(this.sum[this.sum.length - 1] + amount);
  }

  /** What lies before a time, where `before` stretches begin at or before it. */
  private covered(before: number, time: number): number {
    if (before === 0) return 0;
    const share = Math.min(1, (time - this.begin[before - 1]) / this.width);
    return this.sum[before - 1] + share * (this.sum[before] - this.sum[before - 1]);
  }

  before(time: number): number {
    return this.covered(upper(this.begin, this.begin.length, time), time);
  }

  sweep(edges: Float64Array, visit: (bucket: number, amount: number) => void): void {
    let place = upper(this.begin, this.begin.length, edges[0]);
    let earlier = this.covered(place, edges[0]);
    for (let bucket = 0; bucket + 1 < edges.length; bucket++) {
      place = upperFrom(this.begin, this.begin.length, place, edges[bucket + 1]);
      const now = this.covered(place, edges[bucket + 1]);
      if (now > earlier) visit(bucket, now - earlier);
      earlier = now;
    }
  }
}

interface LaneSums {
  /** By reason; 0 is work. */
  readonly time: Map<number, Amounts>;
  readonly rows: Amounts;
  readonly critical: Amounts;
}

/** Sums that are exact at multiples of the message's width, and between two of them spread evenly. */
export class ZoomSums {
  private readonly lanes: readonly LaneSums[];

  constructor(message: Message, lanes: number, shift: number) {
    const width = 2 ** shift;
    this.lanes = Array.from({ length: lanes }, () => ({
      time: new Map<number, Amounts>(),
      rows: new Amounts(width),
      critical: new Amounts(width),
    }));
    const column = (name: string): ArrayLike<number> => message.column('zoom', name);
    const [lane, reason, bucket, time, rows] = ['lane', 'reason', 'bucket', 'time', 'rows'].map(column);
    for (let i = 0; i < lane.length; i++) {
      const sums = this.lanes[lane[i]];
      if (sums === undefined) continue;
      let amounts = sums.time.get(reason[i]);
      if (amounts === undefined) sums.time.set(reason[i], (amounts = new Amounts(width)));
      if (time[i] > 0) amounts.push(bucket[i] * width, time[i]);
      if (rows[i] > 0) sums.rows.push(bucket[i] * width, rows[i]);
    }
    const on = message.column('zoom_critical', 'lane');
    const at = message.column('zoom_critical', 'bucket');
    for (let i = 0; i < on.length; i++) this.lanes[on[i]]?.critical.push(at[i] * width, 1);
  }

  buckets(lane: number, from: number, to: number, count: number): Buckets {
    const out = emptyBuckets(from, to, count);
    const sums = this.lanes[lane];
    if (sums === undefined) return out;
    const edges = edgesOf(from, to, count);
    const most = new Float64Array(count);
    for (const [reason, amounts] of sums.time)
      amounts.sweep(edges, (bucket, amount) => {
        if (reason === 0) out.busy[bucket] = amount;
        else {
          out.waiting[bucket] += amount;
          if (amount > most[bucket]) {
            most[bucket] = amount;
            out.cause[bucket] = reason;
          }
        }
      });
    // Whole rows only: of each bucket those up to its end, less those that earlier buckets have.
    let counted = Math.round(sums.rows.before(from));
    for (let bucket = 0; bucket < count; bucket++) {
      const until = Math.round(sums.rows.before(edges[bucket + 1]));
      out.rows[bucket] = until - counted;
      counted = until;
    }
    sums.critical.sweep(edges, bucket => (out.critical[bucket] = 1));
    return out;
  }

  /** About how many rows start at or before a time. */
  rowsUntil(time: number): number {
    return Math.round(this.lanes.reduce((total, lane) => total + lane.rows.before(time), 0));
  }
}
