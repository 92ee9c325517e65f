/** What happened in a range of time, in one line. */
import { HUE_LABELS } from '../../_generated/schema';
import { iterationName, iterationOfSpan } from '../../iterations';
import type { Hue, Run, Span } from '../../types';
import { touching } from './bars';
import { dmaBytes } from './counters';

export interface Aggregates {
  readonly instructions: number;
  /** The lane that the shares are of. */
  readonly label: string;
  readonly busy: number;
  /** Every engine, and DMA by core, that executes in the range, with its share of it; the largest first. */
  readonly shares: readonly { readonly label: string; readonly share: number }[];
  readonly waiting: number;
  /** Shares of the range by what was waited for, largest first. */
  readonly waits: readonly { readonly hue: Hue; readonly share: number }[];
  readonly bytes: number;
  /** "i = 1, whole iteration" or "". */
  readonly iteration: string;
}

/** More rows than this of a lane are not looked at one by one. */
const LOOKED_AT = 100_000;
const HUES_SHOWN = 3;

export function aggregates(run: Run, area: Span, lane: number): Aggregates {
  const length = Math.max(1, area.to - area.from);
  let instructions = 0;
  for (const one of run.lanes) instructions += run.buckets(one.id, area.from, area.to, 1).rows[0];
  const sums = run.buckets(lane, area.from, area.to, 1);
  return {
    instructions,
    label: run.lanes[lane].label,
    busy: Math.min(1, sums.busy[0] / length),
    shares: busyShares(run, area),
    waiting: Math.min(1, sums.waiting[0] / length),
    waits: waitsByHue(run, area, lane),
    bytes: dmaBytes(run, area.from, area.to),
    iteration: iterationOf(run, area),
  };
}

function busyShares(run: Run, area: Span): Aggregates['shares'] {
  const length = Math.max(1, area.to - area.from);
  const out: { label: string; share: number }[] = [];
  const add = (label: string, time: number): void => {
    if (time > 0) out.push({ label, share: Math.min(1, time / length) });
  };
  for (const lane of run.lanes)
    if (lane.kind === 'engine') add(lane.label, run.buckets(lane.id, area.from, area.to, 1).busy[0]);
  for (const core of run.cores)
    add(
      run.cores.length > 1 ? `${HUE_LABELS.dma}, ${run.coreName(core)}` : HUE_LABELS.dma,
      run.dmaBusy(core, area.from, area.to),
    );
  return out.sort((one, other) => other.share - one.share);
}

function waitsByHue(run: Run, area: Span, lane: number): Aggregates['waits'] {
  const steps = run.laneSteps(lane);
  const [begin, end] = touching(run, steps, area.from, area.to);
  if (end - begin > LOOKED_AT) return [];
  const times = new Map<Hue, number>();
  const { start, wait, setup, stall, setupStall, first } = run.rows;
  const add = (step: number, reason: number, from: number, to: number): void => {
    const inside = Math.min(to, area.to) - Math.max(from, area.from);
    if (inside <= 0) return;
    const hue = run.stallHue(step, reason);
    times.set(hue, (times.get(hue) ?? 0) + inside);
  };
  for (let at = begin; at < Math.min(end + 1, steps.length); at++) {
    const place = steps[at] - first;
    const begins = start[place];
    add(steps[at], stall[place], begins - wait[place], begins - setup[place]);
    add(steps[at], setupStall[place], begins - setup[place], begins);
  }
  const sorted = [...times].sort((one, other) => other[1] - one[1]);
  return sorted.slice(0, HUES_SHOWN).map(([hue, time]) => ({ hue, share: time / (area.to - area.from) }));
}

/** The engine lane that works most in a range. */
export function busiest(run: Run, area: Span): number {
  let best = 0;
  let most = -1;
  for (const lane of run.lanes) {
    if (lane.kind !== 'engine') continue;
    const busy = run.buckets(lane.id, area.from, area.to, 1).busy[0];
    if (busy > most) [best, most] = [lane.id, busy];
  }
  return best;
}

/** The iteration that the range is, or the innermost one that it lies in, as far as its first and last row tell. */
function iterationOf(run: Run, area: Span): string {
  const whole = iterationOfSpan(run, area);
  if (whole >= 0) return iterationName(run, whole);
  const first = run.stepAt(area.from) + 1;
  const last = run.stepAt(area.to);
  if (!run.has(first) || !run.has(last) || last < first) return '';
  const ends = run.iterations(last);
  const begins = run.iterations(first);
  const differs = begins.findIndex(({ loop, value }, at) => ends[at]?.loop !== loop || ends[at].value !== value);
  const common = begins.slice(0, differs < 0 ? begins.length : differs);
  return common.map(iteration => `${iteration.loop} = ${iteration.value}`).join(', ');
}
