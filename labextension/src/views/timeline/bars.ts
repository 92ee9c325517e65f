/**
 * Which bars and hatches a lane has in a window: an own bar from 3.2 px on; what is narrower joins its neighbours in a
 * block with a count, as far as the gaps are below 1.2 px. Work grows with the width in pixels, not with the rows.
 */
import { countWhile } from '../../run/search';
import type { Run } from '../../types';
import { type Scale, spanOf, xOf } from './zoom';

export const OWN_BAR = 3.2;
export const JOINING_GAP = 1.2;
/** Blocks of more rows than this are added up by the run's own sums. */
const COUNTED_ONE_BY_ONE = 64;

export interface Bar {
  readonly x: number;
  readonly width: number;
  /** Its row; of a block the first one. */
  readonly step: number;
  /** The last row of a block. */
  readonly last: number;
  readonly count: number;
  /** Share of its width that is work. */
  readonly busy: number;
  readonly critical: boolean;
}

/** A wait: hatched. A preparation of the lane's own is one of its own. */
export interface Wait {
  readonly x: number;
  readonly width: number;
  /** The row that waits. */
  readonly step: number;
  readonly stall: number;
}

export interface LaneBars {
  readonly bars: readonly Bar[];
  readonly waits: readonly Wait[];
}

/** Rows of one lane in order of start that do not overlap: a lane's, or a track's of several. */
export type Steps = Uint32Array | readonly number[];

/** The first place in `steps` whose row starts after `time`. */
export function after(run: Run, steps: Steps, time: number): number {
  const { start, first } = run.rows;
  return countWhile(steps.length, place => start[steps[place] - first] <= time);
}

/** The places [from, to) of the rows that touch a window. */
export function touching(run: Run, steps: Steps, from: number, to: number): readonly [number, number] {
  let low = after(run, steps, from);
  if (low > 0) {
    const place = steps[low - 1] - run.rows.first;
    if (run.rows.start[place] + run.rows.duration[place] > from) low--;
  }
  return [low, Math.max(low, after(run, steps, to))];
}

/** Bars and hatches of `lane`, of which `steps` are rows; `lane` -1 if they are of several. */
export function layoutBars(run: Run, lane: number, steps: Steps, scale: Scale): LaneBars {
  const [begin, end] = touching(run, steps, scale.from, scale.to);
  const builder = new Builder(run, lane, steps, scale);
  for (let place = begin; place < end;) place = builder.add(place, end);
  builder.close();
  // The row after the window may wait within it.
  if (end < steps.length) builder.wait(steps[end]);
  return { bars: builder.bars, waits: builder.waits };
}

class Builder {
  readonly bars: Bar[] = [];
  readonly waits: Wait[] = [];
  private readonly run: Run;
  private readonly lane: number;
  private readonly steps: Steps;
  private readonly scale: Scale;
  private readonly joining: number;
  private readonly own: number;
  /** The open block: places of its first and last row, and where it ends. */
  private first = -1;
  private last = -1;
  private end = 0;

  constructor(run: Run, lane: number, steps: Steps, scale: Scale) {
    this.run = run;
    this.lane = lane;
    this.steps = steps;
    this.scale = scale;
    this.joining = spanOf(scale, JOINING_GAP);
    this.own = spanOf(scale, OWN_BAR);
  }

  /** Takes the row at a place, and those after it that must join it. Returns the next place. */
  add(place: number, limit: number): number {
    const step = this.steps[place];
    const { start, duration, first } = this.run.rows;
    const from = start[step - first];
    const long = duration[step - first];
    this.wait(step);
    if (long >= this.own) {
      this.close();
      this.bars.push(this.bar(from, from + long, step, step, 1, 1, this.run.rows.critical[step - first] === 1));
      return place + 1;
    }
    if (this.first >= 0 && from - this.end >= this.joining) this.close();
    if (this.first < 0) this.first = place;
    this.last = place;
    this.end = from + long;
    return this.leap(place, limit);
  }

  /**
   * Skips rows that join in any case: all but the last of those that start within the joining gap end there too, so
   * each is narrow and near to the one before.
   */
  private leap(place: number, limit: number): number {
    const { start, first } = this.run.rows;
    const until = this.end + this.joining;
    const starts = (at: number): number => start[this.steps[at] - first];
    let stride = 1;
    while (place + stride < limit && starts(place + stride) < until) stride *= 2;
    let low = place + (stride >> 1);
    let high = Math.min(place + stride, limit);
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (starts(middle) < until) low = middle;
      else high = middle;
    }
    if (low - 1 > place) this.last = low - 1;
    return Math.max(low, place + 1);
  }

  wait(step: number): void {
    const rows = this.run.rows;
    const place = step - rows.first;
    const whole = rows.wait[place];
    if (whole < this.joining) return;
    const setup = rows.setup[place];
    const start = rows.start[place];
    this.hatch(start - whole, start - setup, step, rows.stall[place]);
    this.hatch(start - setup, start, step, rows.setupStall[place]);
  }

  private hatch(from: number, to: number, step: number, stall: number): void {
    const left = Math.max(from, this.scale.from);
    const right = Math.min(to, this.scale.to);
    if (right - left < this.joining) return;
    const x = xOf(this.scale, left);
    this.waits.push({ x, width: xOf(this.scale, right) - x, step, stall });
  }

  close(): void {
    if (this.first < 0) return;
    const count = this.last - this.first + 1;
    const { start, duration, first: loaded } = this.run.rows;
    const step = this.steps[this.first];
    const last = this.steps[this.last];
    const from = start[step - loaded];
    const to = start[last - loaded] + duration[last - loaded];
    const { busy, critical } = this.sums(from, to, count);
    const share = count === 1 || to <= from ? 1 : Math.min(1, busy / (to - from));
    this.bars.push(this.bar(from, to, step, last, count, share, critical));
    this.first = -1;
  }

  private sums(from: number, to: number, count: number): { busy: number; critical: boolean } {
    if (this.lane >= 0 && count > COUNTED_ONE_BY_ONE) {
      const sum = this.run.buckets(this.lane, from, to, 1);
      return { busy: sum.busy[0], critical: sum.critical[0] === 1 };
    }
    const rows = this.run.rows;
    let busy = 0;
    let critical = false;
    for (let at = this.first; at <= this.last; at++) {
      const place = this.steps[at] - rows.first;
      busy += rows.duration[place];
      critical ||= rows.critical[place] === 1;
    }
    return { busy, critical };
  }

  private bar(
    from: number,
    to: number,
    step: number,
    last: number,
    count: number,
    busy: number,
    critical: boolean,
  ): Bar {
    const x = Math.max(xOf(this.scale, from), -BEYOND);
    const width = Math.min(xOf(this.scale, to), this.scale.width + BEYOND) - x;
    return { x, width, step, last, count, busy, critical };
  }
}

/** Bars are cut so far outside the window, where their round corners are not seen. */
const BEYOND = 8;
