/** Sums of the whole run over stretches of time, for the parts whose rows are not loaded. */

import type { Buckets } from '../types';
import type { Message } from '../wire';
import { addTimes, edgesOf, emptyBuckets, Stretches } from './lanes';

interface LaneSums {
  readonly work: Stretches;
  /** By reason. */
  readonly waits: Map<number, Stretches>;
  readonly rows: Stretches;
  readonly critical: Stretches;
}

/** Sums that are exact at multiples of the message's width, and between two of them spread evenly. */
export class ZoomSums {
  private readonly lanes: readonly LaneSums[];

  constructor(message: Message, lanes: number, shift: number) {
    const width = 2 ** shift;
    this.lanes = Array.from({ length: lanes }, () => ({
      work: new Stretches(width),
      waits: new Map<number, Stretches>(),
      rows: new Stretches(width),
      critical: new Stretches(width),
    }));
    const column = (name: string): ArrayLike<number> => message.column('zoom', name);
    const [lane, reason, bucket, time, rows] = ['lane', 'reason', 'bucket', 'time', 'rows'].map(column);
    for (let i = 0; i < lane.length; i++) {
      const sums = this.lanes[lane[i]];
      if (sums === undefined) continue;
      let stretches = reason[i] === 0 ? sums.work : sums.waits.get(reason[i]);
      if (stretches === undefined) sums.waits.set(reason[i], (stretches = new Stretches(width)));
      if (time[i] > 0) stretches.push(bucket[i] * width, time[i]);
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
    addTimes(out, edges, sums.work, sums.waits);
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
