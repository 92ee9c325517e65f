/** Where a step leads: the next line, into, out, along an engine, along dependencies. All give -1 where it leads nowhere. */
import { countWhile } from './run/search';
import type { Run } from './types';

export interface Stepping {
  /** The next instruction in program order. */
  readonly into: (step: number) => number;
  /** The next line of the program, loops inside passed over. */
  readonly line: (step: number) => number;
  /** Behind the loop around the step. */
  readonly out: (step: number) => number;
  /** The next or previous on the same engine. */
  readonly along: (step: number, by: 1 | -1) => number;
  /** At the same time in the lane above or below, past those without any. */
  readonly across: (step: number, time: number, by: 1 | -1) => number;
  /** What it waited for, the binding one first. */
  readonly predecessor: (step: number) => number;
  readonly successor: (step: number) => number;
}

export function createStepping(run: Run): Stepping {
  let steps: Int32Array | null = null;
  /** Loaded steps in program order; rows that are not loaded are left out. */
  const ordered = (): Int32Array => {
    if (steps) return steps;
    const { row, first, count } = run.rows;
    const places = Int32Array.from({ length: count }, (_, place) => place);
    places.sort((one, other) => row[one] - row[other]);
    steps = places.map(place => place + first);
    return steps;
  };
  const placeInProgram = (step: number): number => {
    const wanted = run.rows.row[step - run.rows.first];
    const all = ordered();
    return countWhile(all.length, place => run.rows.row[all[place] - run.rows.first] < wanted);
  };
  const next = (step: number, accept: (other: number) => boolean): number => {
    if (!run.has(step)) return -1;
    const all = ordered();
    for (let place = placeInProgram(step) + 1; place < all.length; place += 1) {
      if (accept(all[place])) return all[place];
    }
    return -1;
  };
  const depth = (step: number): number =>
    run.rows.iteration[step - run.rows.first] < 0 ? 0 : run.iterations(step).length;
  const binding = (edges: ReturnType<Run['predecessors']>): number =>
    edges.length ? (edges.find(edge => edge.binding) ?? edges[0]).step : -1;

  return {
    into: step => next(step, () => true),
    line(step) {
      if (!run.has(step)) return -1;
      const { site, iteration, first } = run.rows;
      const here = run.siteOf(step);
      const level = depth(step);
      return next(step, other => {
        if (depth(other) > level) return false;
        if (iteration[other - first] !== iteration[step - first]) return true;
        if (site[other - first] === site[step - first]) return false;
        const there = run.siteOf(other);
        return there?.line !== here?.line || there?.source !== here?.source;
      });
    },
    out(step) {
      if (!run.has(step)) return -1;
      const level = depth(step);
      return level ? next(step, other => depth(other) < level) : -1;
    },
    along(step, by) {
      if (!run.has(step)) return -1;
      const mine = run.laneSteps(run.rows.lane[step - run.rows.first]);
      const place = mine.indexOf(step) + by;
      return place >= 0 && place < mine.length ? mine[place] : -1;
    },
    across(step, time, by) {
      if (!run.has(step)) return -1;
      for (let lane = run.rows.lane[step - run.rows.first] + by; lane >= 0 && lane < run.lanes.length; lane += by) {
        const mine = run.laneSteps(lane);
        if (mine.length) return Math.max(run.laneAt(lane, time), mine[0]);
      }
      return -1;
    },
    predecessor: step => (run.has(step) ? binding(run.predecessors(step)) : -1),
    successor: step => (run.has(step) ? binding(run.successors(step)) : -1),
  };
}
