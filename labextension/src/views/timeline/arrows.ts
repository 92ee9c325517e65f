/** The dependencies of the selection as arrows, the ones that decided first. */
import { time } from '../../format';
import type { Edge, Run } from '../../types';
import { type Box, type Figure, placeOf } from './figure';
import type { Ends } from './routes';

/** So many at most; the rest is a number. */
export const MOST_ARROWS = 12;

export interface Arrow extends Ends {
  /** Solid; other kinds than the flow of data are dashed. */
  readonly flow: boolean;
  readonly binding: boolean;
  /** "flow · pv[3] · 28 ns"; '' for none. */
  readonly text: string;
  /** The row at the other end. */
  readonly step: number;
  /** The time of an end that lies outside the window. */
  readonly beyond: number | null;
}

export interface Arrows {
  readonly drawn: readonly Arrow[];
  readonly more: number;
}

interface End {
  readonly edge: Edge;
  readonly forward: boolean;
}

/** Direct neighbours of a row, the binding ones first, then predecessors, then successors. */
export function neighbours(run: Run, step: number): readonly End[] {
  if (!run.has(step)) return [];
  const before = run.predecessors(step).map(edge => ({ edge, forward: false }));
  const behind = run.successors(step).map(edge => ({ edge, forward: true }));
  const all = [...before, ...behind].filter(end => run.has(end.edge.step));
  return [...all.filter(end => end.edge.binding), ...all.filter(end => !end.edge.binding)];
}

export function layoutArrows(figure: Figure, step: number): Arrows {
  const own = placeOf(figure, step);
  if (own === null) return { drawn: [], more: 0 };
  const ends = neighbours(figure.run, step);
  const drawn: Arrow[] = [];
  for (const end of ends.slice(0, MOST_ARROWS)) {
    const other = placeOf(figure, end.edge.step);
    if (other !== null) drawn.push(arrow(figure, step, own, end, other));
  }
  return { drawn, more: Math.max(0, ends.length - MOST_ARROWS) };
}

function arrow(figure: Figure, step: number, own: Box, end: End, other: Box): Arrow {
  const [source, target] = end.forward ? [own, other] : [other, own];
  const [first, second] = end.forward ? [step, end.edge.step] : [end.edge.step, step];
  const far = end.forward ? other.x : other.x + other.width;
  const outside = far < 0 || far > figure.scale.width;
  const inside = (x: number): number => Math.min(Math.max(x, 0), figure.scale.width);
  return {
    from: { x: inside(source.x + source.width), y: middleOf(source) },
    to: { x: inside(target.x), y: middleOf(target) },
    source,
    target,
    flow: end.edge.kind === 'flow',
    binding: end.edge.binding,
    text: words(figure.run, end.edge.kind, first, second, outside ? end.edge.step : -1),
    step: end.edge.step,
    beyond: outside ? timeOfEnd(figure.run, end.edge.step, end.forward) : null,
  };
}

function middleOf(box: Box): number {
  return box.y + box.height / 2;
}

function timeOfEnd(run: Run, step: number, forward: boolean): number {
  const place = step - run.rows.first;
  return forward ? run.rows.start[place] : run.rows.start[place] + run.rows.duration[place];
}

/** Kind, tile, and from the end of one to the start of the other; the time of an end that is not seen. */
function words(run: Run, kind: string, from: number, to: number, outside: number): string {
  const { start, duration, first } = run.rows;
  const gap = start[to - first] - start[from - first] - duration[from - first];
  const parts = kind === 'lane' ? [sameLane(run, from)] : [kind, run.label(from)];
  if (outside >= 0) parts.push(`at ${time(start[outside - first])}`);
  else if (gap >= 500) parts.push(time(gap));
  return parts.filter(part => part !== '').join(' · ');
}

/** How the next row of a lane is called: it waits for nothing but its turn. */
function sameLane(run: Run, step: number): string {
  return run.lanes[run.rows.lane[step - run.rows.first]].kind === 'dma' ? 'same queue' : 'same engine';
}

/** Where the number of those left out stands: below the selection, within the width of the lanes. */
export function moreBox(figure: Figure, own: Box): Box {
  const x = Math.min(Math.max(0, own.x), figure.scale.width - MORE.width);
  return { x, y: own.y + own.height + 6, ...MORE };
}

const MORE = { width: 78, height: 24 } as const;
