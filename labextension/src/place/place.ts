/**
 * Where a user is in a run, so that the next run of the kernel opens there: at the same step where the program is the
 * same, else at the line, iteration and operation that the edit left.
 */
import { WHOLE } from '../_generated/schema';
import type { LoopIteration, Run, Source, Span, State } from '../types';
import { whole } from '../store';
import { linesOf, movedLine } from './lines';

/** What of the state is no place in the run. */
const CHOICES = ['colourBy', 'showCritical', 'usedRange', 'query', 'searching', 'tab', 'panel', 'expanded'] as const;
/** Lines around a line without instructions that are searched for some. */
const AROUND = 40;
/** Instructions of a line that are looked at for the iteration. */
const MOST = 200_000;

interface Line {
  readonly source: number;
  readonly line: number;
}

/** An instruction by what an edit leaves of it: its line, operation and iteration, and its number among such. */
interface Anchor extends Line {
  readonly op: string;
  readonly loops: readonly LoopIteration[];
  readonly nth: number;
}

export interface Place {
  readonly kernel: string;
  readonly program: string;
  readonly makespan: number;
  readonly step: number;
  readonly isSelected: boolean;
  readonly at: Anchor | null;
  readonly time: number;
  /** null: the whole run. */
  readonly window: Span | null;
  readonly area: Span | null;
  readonly line: Line | null;
  readonly breakpoints: readonly Line[];
  readonly tile: string;
  readonly stopTile: string;
  readonly sources: readonly Source[];
  readonly choices: Pick<State, (typeof CHOICES)[number]>;
}

/** The place of a state in its run. */
export function placeOf(run: Run, state: State): Place {
  const { step, selected, time, window, area, line, breakpoints, tile, stopTile } = state;
  const all = whole(run);
  return {
    kernel: run.kernel,
    program: programOf(run),
    makespan: run.makespan,
    step,
    isSelected: selected >= 0,
    at: anchorOf(run, step),
    time,
    window: window.from <= all.from && window.to >= all.to ? null : window,
    area,
    line,
    breakpoints: [...breakpoints].map(text => {
      const [source, at] = text.split(':').map(Number);
      return { source, line: at };
    }),
    tile: run.buffers[tile]?.name ?? '',
    stopTile: run.buffers[stopTile]?.name ?? '',
    sources: run.sources,
    choices: Object.fromEntries(CHOICES.map(name => [name, state[name]])) as Place['choices'],
  };
}

/** Whether the rows are loaded that `stateAt` looks at. */
export function isReachable(run: Run, { step }: Place): boolean {
  return run.rows.count === run.steps || (run.steps > WHOLE && run.rows.count > 0 && step >= 0);
}

/** What to set so that a run is shown at a place. A run that failed is shown at its fault. */
export function stateAt(run: Run, place: Place): Partial<State> {
  const { choices } = place;
  const move = mover(run, place);
  const breakpoints = new Set(
    place.breakpoints.flatMap(item => {
      const moved = move(item);
      return moved === null ? [] : [`${moved.source}:${moved.line}`];
    }),
  );
  const kept: Partial<State> = { ...choices, breakpoints, stopTile: bufferOf(run, place.stopTile) };
  if (run.fault >= 0 || run.steps === 0) return kept;
  const isSame = place.program === programOf(run);
  const step = isSame ? place.step : stepAt(run, place, move);
  if (step < 0 || step >= run.steps) return kept;
  if (!run.has(step)) return { ...kept, step };
  const start = run.rows.start[step - run.rows.first];
  const scale = isSame && place.makespan > 0 ? run.makespan / place.makespan : 1;
  const time = isSame && !place.isSelected ? place.time * scale : start;
  const site = run.siteOf(step);
  return {
    ...kept,
    step,
    time,
    selected: place.isSelected ? step : -1,
    tile: bufferOf(run, place.tile),
    line: (place.line && move(place.line)) ?? (site && { source: site.source, line: site.line }),
    window: windowAt(run, place, time, scale),
    area: isSame && place.area ? { from: place.area.from * scale, to: place.area.to * scale } : null,
  };
}

/** The window with the cursor where it stood in it, and as wide as it was. */
function windowAt(run: Run, { window, time: before }: Place, time: number, scale: number): Span {
  if (window === null) return whole(run);
  const from = time - (before - window.from) * scale;
  return { from, to: from + (window.to - window.from) * scale };
}

/** A short text that two runs of one program share: what is executed, in which order, on which tensors. */
export function programOf(run: Run): string {
  const { rows } = run;
  let hash = mixed(0x811c9dc5, `${run.kernel} ${run.steps}`);
  for (const { name, space, dtype, shape } of run.buffers)
    hash = mixed(hash, `${name} ${space} ${dtype} ${shape.join()}`);
  // Of a run that is loaded in ranges, each range would give another text.
  if (rows.count === run.steps) {
    const ops = new Map<number, number>();
    for (let at = 0; at < rows.count; at += 1) {
      const op = rows.op[at];
      let of = ops.get(op);
      if (of === undefined)
        ops.set(op, (of = mixed(0, `${run.op(rows.first + at).name} ${run.op(rows.first + at).detail}`)));
      hash = Math.imul(hash ^ of, 0x01000193);
    }
  }
  return (hash >>> 0).toString(16);
}

function mixed(hash: number, text: string): number {
  let out = hash;
  for (let at = 0; at < text.length; at += 1) out = Math.imul(out ^ text.charCodeAt(at), 0x01000193);
  return out;
}

function anchorOf(run: Run, step: number): Anchor | null {
  if (!run.has(step)) return null;
  const site = run.siteOf(step);
  if (site === null) return null;
  const { source, line } = site;
  const op = run.op(step).name;
  const loops = run.iterations(step);
  let nth = 0;
  for (const other of run.stepsAtLine(source, line).slice(0, MOST)) {
    if (other >= step) break;
    if (run.op(other).name === op && sharedLoops(run.iterations(other), loops) === loops.length) nth += 1;
  }
  return { source, line, op, loops, nth };
}

/** The step that an anchor became; -1: nothing is left of it. */
function stepAt(run: Run, { at, time, makespan }: Place, move: (line: Line) => Line | null): number {
  const line = at && move(at);
  if (at === null || line === null) return run.stepAt((time / Math.max(makespan, 1)) * run.makespan);
  const steps = near(run, line);
  let best = -1;
  let score = -Infinity;
  let nth = 0;
  for (const step of steps.slice(0, MOST)) {
    const loops = run.iterations(step);
    const shared = sharedLoops(loops, at.loops);
    const isOp = run.op(step).name === at.op;
    const far = Math.abs((loops[shared]?.value ?? 0) - (at.loops[shared]?.value ?? 0));
    const here = 1000 * shared + (isOp ? 10 : 0) + 1 / (1 + far);
    if (here > score) {
      [best, score, nth] = [step, here, 0];
    } else if (here === score && isOp && nth < at.nth) {
      nth += 1;
      best = step;
    }
  }
  return best;
}

/** The steps of a line, or of the nearest one that has some. */
function near(run: Run, { source, line }: Line): Uint32Array {
  for (let far = 0; far <= AROUND; far += 1)
    for (const at of far === 0 ? [line] : [line + far, line - far]) {
      const steps = run.stepsAtLine(source, at);
      if (steps.length > 0) return steps;
    }
  return new Uint32Array(0);
}

function sharedLoops(one: readonly LoopIteration[], other: readonly LoopIteration[]): number {
  let shared = 0;
  while (
    shared < Math.min(one.length, other.length) &&
    one[shared].loop === other[shared].loop &&
    one[shared].value === other[shared].value
  )
    shared += 1;
  return shared;
}

function bufferOf(run: Run, name: string): number {
  return name === '' ? -1 : run.buffers.findIndex(buffer => buffer.name === name);
}

/** Leads from lines of a place's sources to those of a run. */
function mover(run: Run, { sources }: Place): (line: Line) => Line | null {
  const found = new Map<number, number>();
  return ({ source, line }) => {
    const before = sources[source];
    if (before === undefined) return null;
    let here = found.get(source);
    if (here === undefined) found.set(source, (here = sourceOf(run, before)));
    if (here < 0) return null;
    const { text } = run.sources[here];
    if (text === before.text) return { source: here, line };
    const moved = movedLine(linesOf(before.text), linesOf(text), line);
    return moved > 0 ? { source: here, line: moved } : null;
  };
}

/** The source that another one became: the same file, else the one with most of its lines, as cells change their names. */
function sourceOf(run: Run, { path, text }: Source): number {
  const same = run.sources.findIndex(source => source.path === path);
  if (same >= 0) return same;
  const lines = new Set(linesOf(text).map(line => line.trim()));
  lines.delete('');
  let best = -1;
  let most = 0;
  run.sources.forEach((source, index) => {
    const shared = linesOf(source.text).filter(line => lines.has(line.trim())).length;
    if (shared > most) [best, most] = [index, shared];
  });
  return best;
}
