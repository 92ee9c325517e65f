/** Curves below the lanes: memory in use, and bytes per time of the DMA queues. */
import type { OnChip, Rows, Run } from '../../types';
import { after } from './bars';
import { type Scale, xOf } from './zoom';

export interface Curve {
  /** x and height (0 to 1) in turn; each height holds until the next x. */
  readonly points: Float64Array;
  /** What height 1 stands for: bytes per partition, or bytes per second. */
  readonly top: number;
  /** The largest value in the window. */
  readonly most: number;
}

/** Width of a step of the DMA curve in pixels. */
const RATE_STEP = 4;

/** Live bytes of a core's memory, drawn to the largest value of the whole run on any core: neither zooming nor the
 * choice of a core stretches it. */
export function usageCurve(run: Run, space: OnChip, core: number, scale: Scale): Curve {
  const pairs = run.usage(space, core, scale.from, scale.to, Math.max(1, Math.round(scale.width)));
  const points = new Float64Array(pairs.length);
  const top = run.peak(space)?.bytes ?? 0;
  let most = 0;
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    points[at] = Math.max(0, xOf(scale, pairs[at]));
    points[at + 1] = top > 0 ? pairs[at + 1] / top : 0;
    most = Math.max(most, pairs[at + 1]);
  }
  return { points, top, most };
}

/** True if the run uses a memory at all. */
export function isUsed(run: Run, space: OnChip): boolean {
  return (run.peak(space)?.bytes ?? 0) > 0;
}

/** Bytes that a run's DMA queues have moved before a time; a transfer moves its bytes evenly. */
class Moved {
  private readonly lanes: { steps: Uint32Array; before: Float64Array }[];
  private readonly run: Run;

  constructor(run: Run) {
    this.run = run;
    this.lanes = run.lanes
      .filter(lane => lane.kind === 'dma')
      .map(lane => {
        const steps = run.laneSteps(lane.id);
        const before = new Float64Array(steps.length + 1);
        for (let at = 0; at < steps.length; at++) {
          before[at + 1] = before[at] + run.rows.bytes[steps[at] - run.rows.first];
        }
        return { steps, before };
      });
  }

  before(time: number): number {
    const { start, duration, bytes, first } = this.run.rows;
    let sum = 0;
    for (const { steps, before } of this.lanes) {
      const at = after(this.run, steps, time) - 1;
      if (at < 0) continue;
      const place = steps[at] - first;
      const part = duration[place] > 0 ? Math.min(1, (time - start[place]) / duration[place]) : 1;
      sum += before[at] + part * bytes[place];
    }
    return sum;
  }
}

const moved = new WeakMap<Rows, Moved>();

/** Bytes moved by DMA within [from, to], of the loaded rows. */
export function dmaBytes(run: Run, from: number, to: number): number {
  let found = moved.get(run.rows);
  if (found === undefined) moved.set(run.rows, (found = new Moved(run)));
  return found.before(to) - found.before(from);
}

/** Bytes per second of all DMA queues, drawn to the largest of the window. */
export function rateCurve(run: Run, scale: Scale): Curve {
  const count = Math.max(1, Math.round(scale.width / RATE_STEP));
  const points = new Float64Array(2 * count);
  const step = (scale.to - scale.from) / count;
  let largest = 0;
  for (let at = 0; at < count; at++) {
    const from = scale.from + at * step;
    const perSecond = (dmaBytes(run, from, from + step) / step) * 1e12;
    points[2 * at] = (at * scale.width) / count;
    points[2 * at + 1] = perSecond;
    largest = Math.max(largest, perSecond);
  }
  if (largest > 0) for (let at = 1; at < points.length; at += 2) points[at] /= largest;
  return { points, top: largest, most: largest };
}
