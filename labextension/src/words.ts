/** How the page says what instructions do and wait for, in the words of the reports. */
import * as format from './format';
import { CONFIDENCES } from './types';
import type { Hue, Lane, Run } from './types';

const REASONS: Readonly<Record<string, string>> = {
  none: 'a reason that was not recorded',
  'anti-dependency': 'earlier reads of the same bytes',
  'output order': 'earlier writes of the same bytes',
  'memory reuse': 'memory that another tensor still uses',
  'user order': 'the order that the schedule asks for',
  semaphore: 'semaphores',
  'table load': 'loads of activation tables',
  'stationary load': 'loads of stationary tiles',
  'dma trigger': 'DMA descriptors to be made',
  'dma start': 'DMA transfers to start',
  'queue interval': 'the interval between two DMA transfers',
  bandwidth: 'DMA bandwidth that others use',
  'port conflict': 'a memory port that another engine has',
  'psum bank': 'a PSUM bank that another engine has',
  'power ramp': "the Tensor Engine's clock to rise",
  launch: 'the kernel to be launched and ended',
  'other core': 'the other core',
};

const SHORT: Readonly<Record<string, string>> = {
  none: 'unknown',
  'anti-dependency': 'earlier reads',
  'output order': 'earlier writes',
  'memory reuse': 'memory in use',
  'user order': 'user order',
  semaphore: 'semaphore',
  'table load': 'table load',
  'stationary load': 'stationary load',
  'dma trigger': 'DMA descriptors',
  'dma start': 'DMA start',
  'queue interval': 'queue interval',
  bandwidth: 'DMA bandwidth',
  'port conflict': 'memory port',
  'psum bank': 'PSUM bank',
  'power ramp': 'clock to rise',
  launch: 'launch',
  'other core': 'other core',
};

const ENGINES: Readonly<Record<string, string>> = {
  tensor: 'Tensor',
  vector: 'Vector',
  scalar: 'Scalar',
  gpsimd: 'GpSimd',
  sync: 'Sync',
  dma: 'DMA',
  cc: 'Collectives',
};

const OF_REASON: Readonly<Record<string, Hue>> = {
  'dma trigger': 'dma',
  'dma start': 'dma',
  'queue interval': 'dma',
  bandwidth: 'dma',
  'table load': 'scalar',
  'stationary load': 'tensor',
  'power ramp': 'tensor',
};

const DATA = 'data from ';

/** "Tensor" of "tensor"; a name that nobody knows stays as it is. */
export function engine(name: string): string {
  return ENGINES[name] ?? name;
}

/** What is waited for, as the rest of "waits for …": "data from Vector", "DMA transfers to start". */
export function reason(name: string): string {
  if (name.startsWith(DATA)) return `data from ${engine(name.slice(DATA.length))}`;
  return REASONS[name] ?? name;
}

/** The same in two words: "Vector", "DMA start". */
export function shortReason(name: string): string {
  if (name.startsWith(DATA)) return engine(name.slice(DATA.length));
  return SHORT[name] ?? name;
}

/** The hue of a reason that names what it waits for; sync where only the row that waits could tell. */
export function reasonHue(name: string): Hue {
  const source = name.startsWith(DATA) ? name.slice(DATA.length) : '';
  return source in ENGINES ? (source as Hue) : (OF_REASON[name] ?? 'sync');
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
  return name.startsWith(DATA) ? `${tile} from ${engine(name.slice(DATA.length))}` : `${tile}: ${reason(name)}`;
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
  if (step === run.fault) said.push('the run failed here');
  return said.join(', ');
}

/** How sure the time is: kinds of knowledge with their shares of the critical path, those above zero. */
export function confidences(run: Run): readonly { readonly name: string; readonly share: number }[] {
  const found = run.summary.confidence;
  if (!found || typeof found !== 'object') return [];
  const shares = found as Record<string, unknown>;
  return CONFIDENCES.map(name => ({ name, share: Number(shares[name] ?? 0) })).filter(item => item.share > 0);
}

/** Whether so much is inferred or guessed that the latency is to be called "about". */
export function isUnsure(run: Run): boolean {
  const unsure = confidences(run).filter(item => item.name === 'inferred' || item.name === 'guess');
  return unsure.reduce((sum, item) => sum + item.share, 0) > 0.25;
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
