/** What holds a run back, as a sentence with links: computed from the ranking of the critical path. */
import { DATA_FROM, HUES, NO_HUE, SENTENCES, type Hue } from './_generated/schema';
import { percent } from './format';
import type { Run } from './types';
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
function share(part: number): Part {
  return { text: percent(part).replace(' ', '\u00a0') };
}

const LOOKED_AT = 50_000;

/** A sentence with parts in its places. */
function sentence(text: string, places: Readonly<Record<string, Part>>): Part[] {
  return text
    .split(/\{(\w+)\}/)
    .map((piece, at) => (at % 2 ? places[piece] : { text: piece }))
    .filter(part => part.text !== '');
}

/** The sentences, the most important first; at least one. */
export function headline(run: Run): readonly (readonly Part[])[] {
  if (run.steps === 0) return [sentence(SENTENCES.empty, {})];
  if (run.makespan <= 0) return [sentence(SENTENCES.instant, {})];
  const work = largest(run.path.work);
  const wait = largest(run.path.waits);
  const out: Part[][] = [];
  if (work && (!wait || work.time >= wait.time)) {
    const what = { text: engine(work.name), hue: HUES.find(hue => hue === work.name) ?? NO_HUE };
    out.push(sentence(SENTENCES.works, { what, share: share(work.time / run.makespan) }));
    const waiting = waiter(run, work.name);
    if (waiting) out.push(waiting);
  } else if (wait) {
    const what = { text: reason(wait.name), hue: reasonHue(wait.name) };
    out.push(sentence(SENTENCES.path_waits, { what, share: share(wait.time / run.makespan) }));
  }
  const line = run.lines.find(item => item.critical > 0);
  if (line && out.length < 2) {
    const where = { text: `Line ${line.line}`, line: { source: line.source, line: line.line } };
    out.push(sentence(SENTENCES.line, { line: where, share: share(line.share) }));
  }
  return out.length ? out : [sentence(SENTENCES.nothing, {})];
}

/** "Tensor waits for k[j].": who waits longest for results of an engine on the critical path, and for which tile. */
function waiter(run: Run, source: string): Part[] | null {
  const { rows } = run;
  const sums = new Map<string, { time: number; longest: number; step: number }>();
  let most: { time: number; longest: number; step: number } | null = null;
  const path = run.criticalPath.length > LOOKED_AT ? run.criticalPath.subarray(0, LOOKED_AT) : run.criticalPath;
  for (const step of path) {
    const place = step - rows.first;
    const rest = rows.wait[place] - rows.setup[place];
    if (rest <= 0 || run.stalls[rows.stall[place]] !== DATA_FROM + source) continue;
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
  return sentence(SENTENCES.waits_for, {
    lane: { text: lane.label, hue: lane.hue },
    what: { text: tile || reason(DATA_FROM + source), code: tile !== '', step: most.step },
  });
}

function largest(times: Readonly<Record<string, number>>): { name: string; time: number } | null {
  let found: { name: string; time: number } | null = null;
  for (const [name, time] of Object.entries(times)) if (!found || time > found.time) found = { name, time };
  return found;
}
