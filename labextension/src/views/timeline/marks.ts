/** What a search found, as the lanes are drawn with it: which bars and columns keep their colour. */
import { lower } from '../../run/search';
import type { Buckets, Found, Run } from '../../types';
import type { Bar } from './bars';

export interface Marks {
  /** True if a bar, or any row of a block, was found. */
  has(bar: Bar): boolean;
  /** True if a row was found. */
  hasStep(step: number): boolean;
  /** 1 for each bucket in which a row of these lanes that was found runs. */
  columns(lanes: readonly number[], sums: Buckets): Uint8Array;
}

/** Null where nothing is searched, or the search is not understood: then nothing is marked. */
export function marksOf(run: Run, found: Found | null): Marks | null {
  if (found?.problem !== '' || found.progress < 1) return null;
  const { steps } = found;
  const { lane, start, duration, first } = run.rows;
  const perLane: number[][] = run.lanes.map(() => []);
  for (const step of steps) if (run.has(step)) perLane[lane[step - first]]?.push(step);
  /** The rows of a block on the DMA tracks may be of any queue of the core. */
  const lanesOf = (step: number): readonly number[] => {
    const own = run.lanes[lane[step - first]];
    if (own.kind !== 'dma') return [own.id];
    return run.lanes.filter(one => one.kind === 'dma' && one.core === own.core).map(one => one.id);
  };
  const hasStep = (step: number): boolean => within(steps, step, step);
  return {
    hasStep,
    has: bar =>
      bar.count === 1 ? hasStep(bar.step) : lanesOf(bar.step).some(id => within(perLane[id], bar.step, bar.last)),
    columns(lanes, sums) {
      const flags = new Uint8Array(sums.count);
      const bucket = (time: number): number => Math.floor((time - sums.from) / sums.width);
      for (const id of lanes) {
        for (const step of perLane[id]) {
          const from = Math.max(0, bucket(start[step - first]));
          const to = Math.min(sums.count - 1, bucket(start[step - first] + duration[step - first]));
          if (to >= from) flags.fill(1, from, to + 1);
        }
      }
      return flags;
    },
  };
}

function within(steps: ArrayLike<number>, from: number, to: number): boolean {
  const place = lower(steps, steps.length, from);
  return place < steps.length && steps[place] <= to;
}
