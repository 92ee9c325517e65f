/** What moves to and from HBM in a time, and how busy the generators of descriptors are: exact sums per bucket. */
import { DTYPE_BYTES } from '../../_generated/schema';
import { Stretches } from '../../run/lanes';
import { upper } from '../../run/search';
import type { Rows, Run } from '../../types';
import { type Scale, xOf } from './zoom';

/** HBM: of all cores, which share it. Descriptors: of one core, whose queues share a generator. */
export type Flow = 'hbm' | 'descriptors';

export interface FlowCurve {
  /** x and value in turn, each until the next x: bytes a second, or a share of the time. */
  readonly points: Float64Array;
  readonly most: number;
  /** What the whole height stands for. */
  readonly top: number;
  /** Where a line across tells the most there can be; 0: unknown. */
  readonly limit: number;
}

/** Width of a bucket in pixels. */
const STEP = 2;

interface Sums {
  /** Per lane: begins and ends of transfers that touch HBM, and the bytes before each. */
  readonly hbm: readonly { begin: Float64Array; end: Float64Array; before: Float64Array }[];
  /** Per core: when its generators work. */
  readonly making: ReadonlyMap<number, Stretches>;
}

const known = new WeakMap<Rows, Sums>();

function sumsOf(run: Run): Sums {
  let found = known.get(run.rows);
  if (found === undefined) known.set(run.rows, (found = { hbm: transfers(run), making: generators(run) }));
  return found;
}

/** Whether the loaded rows have anything of it. */
export function hasFlow(run: Run, flow: Flow, core: number): boolean {
  const sums = sumsOf(run);
  return flow === 'hbm' ? sums.hbm.length > 0 : (sums.making.get(core)?.begin.length ?? 0) > 0;
}

/** Bytes between two times to and from HBM; a transfer moves its bytes evenly. */
export function hbmBytes(run: Run, from: number, to: number): number {
  let sum = 0;
  for (const lane of sumsOf(run).hbm) sum += before(lane, to) - before(lane, from);
  return sum;
}

/** Picoseconds between two times in which a generator of a core makes descriptors. */
export function makingTime(run: Run, core: number, from: number, to: number): number {
  const stretches = sumsOf(run).making.get(core);
  return stretches === undefined ? 0 : stretches.before(to) - stretches.before(from);
}

export function flowCurve(run: Run, flow: Flow, core: number, scale: Scale): FlowCurve {
  const count = Math.max(1, Math.round(scale.width / STEP));
  const points = new Float64Array(2 * count);
  const width = (scale.to - scale.from) / count;
  const until = (time: number): number =>
    flow === 'hbm' ? hbmBytes(run, 0, time) * 1e12 : makingTime(run, core, 0, time);
  let most = 0;
  let earlier = until(scale.from);
  for (let at = 0; at < count; at++) {
    const begin = scale.from + at * width;
    const now = until(begin + width);
    const value = Math.max(0, (now - earlier) / width);
    earlier = now;
    points[2 * at] = xOf(scale, begin);
    points[2 * at + 1] = value;
    most = Math.max(most, value);
  }
  const limit = flow === 'hbm' ? (run.capacity.hbm ?? 0) : 1;
  return { points, most, limit, top: Math.max(limit, most) };
}

function before({ begin, end, before: sums }: Sums['hbm'][number], time: number): number {
  const at = upper(begin, begin.length, time) - 1;
  if (at < 0) return 0;
  const part = end[at] > begin[at] ? Math.min(1, (time - begin[at]) / (end[at] - begin[at])) : 1;
  return sums[at] + part * (sums[at + 1] - sums[at]);
}

function transfers(run: Run): Sums['hbm'] {
  const { start, duration, bytes, first } = run.rows;
  const sizes = run.sumsOver(view => hbmSize(run, view));
  const moved = (place: number): number => (Number.isNaN(sizes[place]) ? bytes[place] : sizes[place]);
  const found: Sums['hbm'][number][] = [];
  for (const lane of run.lanes) {
    if (lane.kind !== 'dma') continue;
    const steps = run.laneSteps(lane.id).filter(step => moved(step - first) > 0);
    if (steps.length === 0) continue;
    const begin = new Float64Array(steps.length);
    const end = new Float64Array(steps.length);
    const sums = new Float64Array(steps.length + 1);
    for (let at = 0; at < steps.length; at++) {
      const place = steps[at] - first;
      begin[at] = start[place];
      end[at] = start[place] + duration[place];
      sums[at + 1] = sums[at] + moved(place);
    }
    found.push({ begin, end, before: sums });
  }
  return found;
}

/** Bytes of a view in HBM, which those on the chip have none of; NaN where its shape was not recorded. */
function hbmSize(run: Run, id: number): number {
  const view = run.view(id);
  if (run.buffers[view.buffer]?.space !== 'hbm') return 0;
  return view.dims.reduce((size, [count]) => size * count, DTYPE_BYTES[view.dtype] ?? NaN);
}

/** A core may have two, in hardware and in software: what both do at once counts once. */
function generators(run: Run): Map<number, Stretches> {
  const { start, lead, lane, first, count } = run.rows;
  const spans = new Map<number, [number, number][]>();
  for (let at = 0; at < count; at++) {
    if (lead[at] === 0) continue;
    const making = run.treatment(first + at).transfer?.making ?? 0;
    if (making === 0) continue;
    const { core } = run.lanes[lane[at]];
    const begin = start[at] - lead[at];
    const mine = spans.get(core);
    if (mine === undefined) spans.set(core, [[begin, begin + making]]);
    else mine.push([begin, begin + making]);
  }
  const found = new Map<number, Stretches>();
  for (const [core, mine] of spans) {
    mine.sort((one, other) => one[0] - other[0]);
    const stretches = new Stretches();
    let until = -Infinity;
    for (const [from, to] of mine) {
      const begin = Math.max(from, until);
      if (to <= begin) continue;
      stretches.push(begin, to - begin);
      until = to;
    }
    found.set(core, stretches);
  }
  return found;
}
