/** The iterations of loops around a step, and how to get to the same place in another one. */
import { firstFrom } from './run/search';
import type { LoopIteration, Run } from './types';

/** A loop around a step, or where no loops are known the steps of its line. */
export interface Level {
  readonly name: string;
  /** "i = 3", "line 12". */
  readonly label: string;
  /** Iterations, within the same iterations of the loops around it. */
  readonly count: number;
  /** Which of them this is, from 0. */
  readonly place: number;
}

interface Node {
  readonly values: number[];
}

/** An index of the loops of the loaded rows. */
export interface Loops {
  /** The loops around a step, outermost first. */
  levels(step: number): readonly Level[];
  /** The step in iteration `place` of loop `level`, at the same line if there is one; -1: none. */
  move(step: number, level: number, place: number): number;
}

/** The index of a run; built on first use, as it looks at every row. */
export function createLoops(run: Run): Loops {
  let nodes: Map<string, Node> | null = null;
  const build = (): Map<string, Node> => {
    const found = new Map<string, Set<number>>();
    const seen = new Set<number>();
    const { first, count, iteration: iterations } = run.rows;
    for (let place = 0; place < count; place += 1) {
      const iteration = iterations[place];
      if (iteration < 0 || seen.has(iteration)) continue;
      seen.add(iteration);
      let around = '';
      for (const { loop, value } of run.iterations(first + place)) {
        const key = `${around}/${loop}`;
        const values = found.get(key) ?? new Set();
        values.add(value);
        found.set(key, values);
        around = `${key}=${value}`;
      }
    }
    return new Map([...found].map(([key, values]) => [key, { values: [...values].sort((a, b) => a - b) }]));
  };
  /** The values of each loop around a step. */
  const valuesOf = (step: number): readonly (readonly number[])[] => {
    nodes ??= build();
    let around = '';
    return run.iterations(step).map(({ loop, value }) => {
      const key = `${around}/${loop}`;
      around = `${key}=${value}`;
      return nodes?.get(key)?.values ?? [value];
    });
  };
  const isInLoop = (step: number): boolean => run.rows.iteration[step - run.rows.first] >= 0;
  return {
    levels(step) {
      if (!run.has(step)) return [];
      if (!isInLoop(step)) return lineLevel(run, step);
      const values = valuesOf(step);
      return run.iterations(step).map(({ loop, value }, level) => ({
        name: loop,
        label: `${loop} = ${value}`,
        count: values[level].length,
        place: values[level].indexOf(value),
      }));
    },
    move(step, level, place) {
      if (!isInLoop(step)) return lineSteps(run, step)[place] ?? -1;
      const value = valuesOf(step)[level][place];
      const wanted = run
        .iterations(step)
        .map((iteration, at) => (at === level ? { loop: iteration.loop, value } : iteration));
      return nearest(run, step, wanted, level);
    },
  };
}

/** The steps of a step's line. */
function lineSteps(run: Run, step: number): Uint32Array {
  const site = run.siteOf(step);
  return site ? run.stepsAtLine(site.source, site.line) : new Uint32Array(0);
}

function lineLevel(run: Run, step: number): readonly Level[] {
  const steps = lineSteps(run, step);
  if (steps.length < 2) return [];
  const place = firstFrom(steps, step);
  return [{ name: 'line', label: `line ${run.siteOf(step)?.line ?? 0}`, count: steps.length, place }];
}

/** The step that agrees with the most of the wanted iterations, the first `level + 1` of them in any case. */
function nearest(run: Run, step: number, wanted: readonly LoopIteration[], level: number): number {
  const { first, count, iteration: iterations, site } = run.rows;
  const here = site[step - first];
  const scores = new Map<number, number>();
  let best = -1;
  let most = 0;
  for (let place = 0; place < count; place += 1) {
    const iteration = iterations[place];
    if (iteration < 0) continue;
    let score = scores.get(iteration);
    if (score === undefined) {
      const agreed = agreement(run.iterations(first + place), wanted);
      score = agreed > level ? agreed : 0;
      scores.set(iteration, score);
    }
    if (!score) continue;
    const full = 2 * score + (site[place] === here ? 1 : 0);
    if (full > most) {
      most = full;
      best = first + place;
    }
  }
  return best;
}

/** How many of the iterations agree, from the outside in. */
function agreement(iterations: readonly LoopIteration[], wanted: readonly LoopIteration[]): number {
  let same = 0;
  while (same < iterations.length && same < wanted.length) {
    if (iterations[same].loop !== wanted[same].loop || iterations[same].value !== wanted[same].value) break;
    same += 1;
  }
  return same;
}
