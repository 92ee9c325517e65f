/** Live bytes of each core's memories over time. */

import type { OnChip, Peak } from '../types';
import type { Message, Numbers } from '../wire';
import { blockMaxima, largest } from './maxima';
import { lower, upper } from './search';

/** Values of one core, in the order of time. */
interface Changes {
  readonly time: Numbers;
  readonly sbuf: Numbers;
  readonly psum: Numbers;
  readonly maxima: Record<OnChip, Float64Array>;
}

/** The table `usage`: rows in the order of core and time, each of which holds until the next one of its core. */
export class MemoryUse {
  private readonly byCore = new Map<number, Changes>();
  private readonly isKnown: boolean;
  private readonly peaks: Record<OnChip, readonly Peak[]>;

  /** `laneCores` has the core of each lane: it stands for the column in messages of 0.1, which are of all cores at once
   * and tell nothing of any where there are several. */
  constructor(message: Message, laneCores: readonly number[]) {
    const time = message.column('usage', 'time');
    const sbuf = message.column('usage', 'sbuf');
    const psum = message.column('usage', 'psum');
    const hasCores = message.has('usage', 'core');
    this.isKnown = hasCores || new Set(laneCores).size < 2;
    const cores = hasCores ? message.column('usage', 'core') : new Uint16Array(time.length).fill(laneCores[0] ?? 0);
    for (let from = 0; this.isKnown && from < cores.length;) {
      const core = cores[from];
      const to = upper(cores, cores.length, core);
      const mine = { sbuf: sbuf.subarray(from, to), psum: psum.subarray(from, to) };
      const maxima = { sbuf: blockMaxima(mine.sbuf), psum: blockMaxima(mine.psum) };
      this.byCore.set(core, { time: time.subarray(from, to), ...mine, maxima });
      from = to;
    }
    this.peaks = { sbuf: this.peaksOf('sbuf'), psum: this.peaksOf('psum') };
  }

  get cores(): readonly number[] {
    return [...this.byCore.keys()];
  }

  /** Pairs of time and bytes in the fullest partition, from `from` on: each change, or the largest value of each of
   * `count` stretches where there are more changes than that. Nothing where nothing is known. */
  between(space: OnChip, core: number, from: number, to: number, count: number): Float64Array {
    const changes = this.byCore.get(core);
    if (changes === undefined) return Float64Array.from(this.isKnown ? [from, 0] : []);
    const { time } = changes;
    const bytes = changes[space];
    const first = upper(time, time.length, from) - 1;
    const last = lower(time, time.length, to);
    const out: number[] = [from, first < 0 ? 0 : bytes[first]];
    if (last - first <= count) {
      for (let i = first + 1; i < last; i++) out.push(time[i], bytes[i]);
      return Float64Array.from(out);
    }
    out.length = 0;
    let place = first;
    for (let bucket = 0; bucket < count; bucket++) {
      const until = lower(time, time.length, from + ((to - from) * (bucket + 1)) / count);
      const begin = from + ((to - from) * bucket) / count;
      const most = largest(bytes, changes.maxima[space], Math.max(place, 0), Math.max(until, place + 1));
      if (out.length === 0 || out[out.length - 1] !== most) out.push(begin, most);
      place = until - 1;
    }
    return Float64Array.from(out);
  }

  /** The first time at which the most bytes are live, on one core or on that of all where it is most. */
  peak(space: OnChip, core?: number): Peak | null {
    let found: Peak | null = null;
    for (const one of this.peaks[space]) {
      if (core !== undefined && core !== one.core) continue;
      if (found === null || one.bytes > found.bytes) found = one;
    }
    return found;
  }

  private peaksOf(space: OnChip): Peak[] {
    return [...this.byCore].map(([core, { time, maxima, ...changes }]) => {
      const bytes = largest(changes[space], maxima[space], 0, time.length);
      return { bytes, core, time: time[Math.max(changes[space].indexOf(bytes), 0)] ?? 0 };
    });
  }
}
