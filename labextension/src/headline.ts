/** What holds a run back, as a sentence with links: computed from the ranking of the critical path. */
import { percent } from './format';
import type { Hue, Run } from './types';
import { engine, laneOf, reason, reasonHue } from './words';

/** A part of a sentence: plain, in the colour of an engine, or a link to a step or a line. */
export interface Part {
  readonly text: string;
  readonly hue?: Hue;
  readonly code?: boolean;
  readonly step?: number;
  readonly line?: { readonly source: number; readonly line: number };
}

/** A share whose sign stays with its number. */
function share(part: number): string {
  return percent(part).replace(' ', '\u00a0');
}

const LOOKED_AT = 50_000;

/** The sentences, the most important first; at least one. */
export function headline(run: Run): readonly (readonly Part[])[] {
  if (run.steps === 0) return [[{ text: 'No instruction was recorded.' }]];
  if (run.makespan <= 0) return [[{ text: 'No instruction takes any time.' }]];
  const work = largest(run.path.work);
  const wait = largest(run.path.waits);
  const out: Part[][] = [];
  if (work && (!wait || work.time >= wait.time)) {
    out.push([
      { text: engine(work.name), hue: work.name in HUES ? (work.name as Hue) : 'sync' },
      { text: ` is on the critical path ${share(work.time / run.makespan)} of the time.` },
    ]);
    const waiting = waiter(run, work.name);
    if (waiting) out.push(waiting);
  } else if (wait) {
    out.push([
      { text: `The critical path waits ${share(wait.time / run.makespan)} of the time for ` },
      { text: reason(wait.name), hue: reasonHue(wait.name) },
      { text: '.' },
    ]);
  }
  const line = run.lines.find(item => item.critical > 0);
  if (line && out.length < 2) {
    out.push([
      { text: `Line ${line.line}`, line: { source: line.source, line: line.line } },
      { text: ` costs most: ${share(line.share)}.` },
    ]);
  }
  return out.length ? out : [[{ text: 'Nothing is on the critical path.' }]];
}

const HUES: Readonly<Record<string, true>> = {
  tensor: true, vector: true, scalar: true, gpsimd: true, sync: true, dma: true, cc: true,
}; // prettier-ignore

/** "Tensor waits for k[j].": who waits longest for results of an engine on the critical path, and for which tile. */
function waiter(run: Run, source: string): Part[] | null {
  const { rows } = run;
  const sums = new Map<string, { time: number; longest: number; step: number }>();
  let most: { time: number; longest: number; step: number } | null = null;
  const path = run.criticalPath.length > LOOKED_AT ? run.criticalPath.subarray(0, LOOKED_AT) : run.criticalPath;
  for (const step of path) {
    const place = step - rows.first;
    const rest = rows.wait[place] - rows.setup[place];
    if (rest <= 0 || run.stalls[rows.stall[place]] !== `data from ${source}`) continue;
    const key = `${rows.lane[place]} ${rows.site[place]}`;
    const sum = sums.get(key) ?? { time: 0, longest: 0, step };
    sum.time += rest;
    if (rest > sum.longest) {
      sum.longest = rest;
      sum.step = step;
    }
    sums.set(key, sum);
    if (!most || sum.time > most.time) most = sum;
  }
  if (!most) return null;
  const tile = run.awaited(most.step);
  const lane = laneOf(run, most.step);
  return [
    { text: lane.label, hue: lane.hue },
    { text: ' waits for ' },
    { text: tile || `data from ${engine(source)}`, code: tile !== '', step: most.step },
    { text: '.' },
  ];
}

function largest(times: Readonly<Record<string, number>>): { name: string; time: number } | null {
  let found: { name: string; time: number } | null = null;
  for (const [name, time] of Object.entries(times)) if (!found || time > found.time) found = { name, time };
  return found;
}
