/** Along a buffer's accesses: who wrote an operand before, who reads it next, and its accumulation. */
import { ROLES } from '../../_generated/schema';
import { firstFrom } from '../../run/search';
import type { Run, TileView } from '../../types';
import { layoutOf } from './layout';
import { meet, slice, type Rect } from './pattern';

/** Accesses of a buffer that are looked at on each side. */
const FAR = 512;
const READ = ROLES.indexOf('read');
const ACCUMULATE = ROLES.indexOf('accumulate');

export interface Neighbours {
  /** The last step before that writes elements of the operand; -1: none is known. */
  readonly writer: number;
  /** The next step that reads elements of it. */
  readonly reader: number;
}

/** Place `place` of `count` among the instructions that add up one result. */
export interface Accumulation {
  readonly place: number;
  readonly count: number;
  /** False where it may go on in rows that are not loaded. */
  readonly whole: boolean;
}

function boundsOf(run: Run, view: TileView): Rect | null {
  const layout = layoutOf(run.buffers[view.buffer], view);
  return slice(view.dims, view.offset, layout.columns, 1).bounds;
}

/** Views move with run-time indices, or share elements. */
function touches(run: Run, view: TileView, frame: Rect | null, other: TileView): boolean {
  if (view.indirect > 0 || other.indirect > 0 || view.dtype !== other.dtype) return true;
  return meet(frame, boundsOf(run, other));
}

/** The access at a place of a buffer's uses: the view of that step's operand with this role. */
function viewAt(run: Run, buffer: number, step: number, role: number): number {
  for (const access of run.accesses(step))
    if (ROLES.indexOf(access.role) === role && run.view(access.view).buffer === buffer) return access.view;
  return -1;
}

export function neighbours(run: Run, step: number, view: TileView): Neighbours {
  const { steps, roles } = run.uses(view.buffer);
  const frame = boundsOf(run, view);
  const here = firstFrom(steps, step);
  const find = (from: number, by: 1 | -1, isRead: boolean): number => {
    for (let place = from, seen = 0; seen < FAR && place >= 0 && place < steps.length; place += by, seen += 1) {
      if (steps[place] === step || (roles[place] === READ) !== isRead) continue;
      const other = viewAt(run, view.buffer, steps[place], roles[place]);
      if (other >= 0 && touches(run, view, frame, run.view(other))) return steps[place];
    }
    return -1;
  };
  return { writer: find(here - 1, -1, false), reader: find(here, 1, true) };
}

/** Where an instruction that adds to a result stands among those that do; null where it is the only one. */
export function accumulation(run: Run, step: number, id: number): Accumulation | null {
  const view = run.view(id);
  const frame = boundsOf(run, view);
  const { steps, roles } = run.uses(view.buffer);
  const here = firstFrom(steps, step);
  const first = roles.subarray(here).findIndex((role, i) => steps[here + i] === step && role !== READ);
  if (first < 0) return null;
  const own = here + first;
  /** 'same': one more of them. 'end': another use of these elements. */
  const kind = (place: number): 'same' | 'end' | 'apart' => {
    const other = viewAt(run, view.buffer, steps[place], roles[place]);
    if (other === id && roles[place] !== READ) return 'same';
    return other >= 0 && !touches(run, view, frame, run.view(other)) ? 'apart' : 'end';
  };
  let before = 0;
  if (roles[own] === ACCUMULATE) {
    for (let place = own - 1; place >= 0 && own - place < FAR; place -= 1) {
      const found = kind(place);
      if (found === 'end') break;
      if (found === 'apart') continue;
      before += 1;
      if (roles[place] !== ACCUMULATE) break;
    }
  }
  let after = 0;
  let isOpen = true;
  for (let place = own + 1; place < steps.length && place - own < FAR; place += 1) {
    const found = kind(place);
    if (found === 'apart') continue;
    isOpen = false;
    if (found === 'end' || roles[place] !== ACCUMULATE) break;
    isOpen = true;
    after += 1;
  }
  const { first: begin, count } = run.rows;
  const whole = begin === 0 && (!isOpen || begin + count >= run.steps);
  return before + after === 0 ? null : { place: before + 1, count: before + after + 1, whole };
}
