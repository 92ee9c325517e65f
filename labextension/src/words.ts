/** How the page says what instructions do and wait for, in the words of the reports. */
import {
  CONFIDENCES,
  DATA_FROM,
  DEFINITIONS,
  FIGURE_LABELS,
  HUE_LABELS,
  NO_HUE,
  ORIGIN_LABELS,
  STALLS,
  UNSURE,
  UNSURE_KINDS,
  type Confidence,
} from './_generated/schema';
import * as format from './format';
import { hueOfReason } from './run/words';
import type { Hue, Lane, Peak, Run } from './types';

/** "Tensor" of "tensor"; a name that nobody knows stays as it is. */
export function engine(name: string): string {
  return (HUE_LABELS as Readonly<Record<string, string>>)[name] ?? name;
}

/** What is waited for, as the rest of "waits for …": "data from Vector", "DMA transfers to start". */
export function reason(name: string): string {
  return STALLS[name]?.label ?? name;
}

/** The same in two words: "Vector", "DMA start". */
export function shortReason(name: string): string {
  return STALLS[name]?.short ?? name;
}

/** The hue of a reason that names what it waits for; the one of none where only the row that waits could tell. */
export function reasonHue(name: string): Hue {
  return hueOfReason(name) ?? NO_HUE;
}

/** The lane of a loaded step. */
export function laneOf(run: Run, step: number): Lane {
  return run.lanes[run.rows.lane[step - run.rows.first]];
}

/** What a loaded step waited for, "k[3] from DMA"; '' if it did not wait. */
export function waitedFor(run: Run, step: number): string {
  const place = step - run.rows.first;
  if (run.rows.wait[place] <= 0) return '';
  const rest = run.rows.wait[place] - run.rows.setup[place];
  const stall = rest > 0 && run.rows.stall[place] > 0 ? run.rows.stall[place] : run.rows.setupStall[place];
  const name = run.stalls[stall] ?? 'none';
  const tile = stall === run.rows.stall[place] ? run.awaited(step) : '';
  if (!tile) return reason(name);
  return name.startsWith(DATA_FROM)
    ? `${tile} from ${engine(name.slice(DATA_FROM.length))}`
    : `${tile}: ${reason(name)}`;
}

/** "nc_matmul, Tensor, 213 ns at 32.88 µs, waited 1.2 µs for k[3] from DMA, critical". */
export function spoken(run: Run, step: number): string {
  if (!run.has(step)) return `Step ${format.ordinal(step)}, not loaded`;
  const { rows } = run;
  const place = step - rows.first;
  const said = [
    run.op(step).name,
    laneOf(run, step).label,
    `${format.time(rows.duration[place])} at ${format.time(rows.start[place])}`,
  ];
  if (rows.wait[place] > 0) said.push(`waited ${format.time(rows.wait[place])} for ${waitedFor(run, step)}`);
  if (rows.critical[place]) said.push('critical');
  const changed = change(run, step);
  if (changed) said.push(changed);
  if (step === run.fault) said.push(failed(run));
  return said.join(', ');
}

/** What the compiler model did with a loaded step: "stands for 12 instructions"; '' where it did nothing. */
export function change(run: Run, step: number): string {
  const { origin, standsFor } = run.change(step);
  const said = origin === 'source' ? [] : [ORIGIN_LABELS[origin]];
  if (standsFor > 1) said.push(`stands for ${format.count(standsFor)} instructions`);
  return said.join(', ');
}

/** What is said of the step at which a run failed. */
export function failed(run: Run): string {
  return run.faultAfter ? 'the run failed after it' : 'the run failed here';
}

/** The 80 % interval of the time, in picoseconds; null where the summary has none. */
export function interval(run: Run): { readonly low: number; readonly high: number } | null {
  const found = run.summary.makespan_interval_ns;
  if (!Array.isArray(found) || found.length !== 2) return null;
  const [low, high] = found as readonly unknown[];
  if (typeof low !== 'number' || typeof high !== 'number' || !Number.isFinite(low + high)) return null;
  return { low: low * 1000, high: high * 1000 };
}

/** The interval behind the time, in its unit: ", 118 to 171"; empty where there is none. */
export function within(run: Run): string {
  const found = interval(run);
  return found ? format.bounds(found.low, found.high, run.makespan) : '';
}

/** What the interval is, where it is from, and what widens it. */
export function intervalText(run: Run): string {
  if (!interval(run)) return '';
  const { makespan_interval_basis: basis, makespan_interval_notes: notes } = run.summary;
  const said = [`${FIGURE_LABELS.interval}${typeof basis === 'string' && basis ? `: ${basis}` : ''}`];
  if (Array.isArray(notes)) {
    for (const note of notes as readonly unknown[]) if (typeof note === 'string') said.push(`wider, as ${note}`);
  }
  return said.join('; ');
}

/** The sources of costs: kinds of knowledge with their shares of the critical path, those above zero. */
export function confidences(run: Run): readonly { readonly name: Confidence; readonly share: number }[] {
  const found = run.summary.confidence;
  if (!found || typeof found !== 'object') return [];
  const shares = found as Record<string, unknown>;
  return CONFIDENCES.map(name => ({ name, share: Number(shares[name] ?? 0) })).filter(item => item.share > 0);
}

/** Whether so much is inferred or guessed that a latency without an interval is to be called "about". */
export function isUnsure(run: Run): boolean {
  if (interval(run)) return false;
  const unsure = confidences(run).filter(item => UNSURE_KINDS.includes(item.name));
  return unsure.reduce((sum, item) => sum + item.share, 0) > UNSURE;
}

/** "58 % documented · 33 measured · 9.0 inferred". */
export function confidenceText(run: Run): string {
  return confidences(run)
    .map(({ name, share }, index) => `${index ? format.percentNumber(share) : format.percent(share)} ${name}`)
    .join(' · ');
}

/** A number of the summary; null where it has none. */
export function figure(run: Run, name: string): number | null {
  const value = run.summary[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/** "second" of 1, counted from 0. */
export function nth(place: number): string {
  const small = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth', 'ninth', 'tenth'];
  return small[place] ?? `number ${place + 1}`;
}

/** What the peak of a memory is, and where: the largest value of the counter in the timeline. */
export function livePeak(run: Run, peak: Peak): string {
  const place = run.coreName(peak.core);
  const core = place === '' ? '' : ` on ${place}`;
  return `${DEFINITIONS.peak} Here${core} from ${format.time(peak.time)} on`;
}
