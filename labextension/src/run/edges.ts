/** Which rows wait for which, both ways. */

import type { Edge } from '../types';
import type { LoadedRows } from './rows';

/** By number in the message; memory: takes over its bytes, user: the schedule says so. */
const KINDS = ['flow', 'anti', 'output', 'memory', 'user'] as const;
/** A row that follows another on its lane needs no edge; where that other let it start, it is shown as one. */
const LANE = KINDS.length;

export class Edges {
  private readonly first: number;
  /** Of each row the first place in `step` and `kind`, for those that wait for it. */
  private later: { readonly bounds: Uint32Array; readonly step: Uint32Array; readonly kind: Uint8Array } | null = null;

  constructor(private readonly loaded: LoadedRows) {
    this.first = loaded.first;
  }

  /** What a loaded step waits for, the one that decided its start first. */
  before(step: number): Edge[] {
    const { edge, before, kinds, rows } = this.loaded;
    const at = step - this.first;
    const after = rows.after[at];
    const out: Edge[] = [];
    for (let place = edge[at]; place < edge[at + 1]; place++)
      out.push({ step: before[place], kind: nameOf(kinds[place]), binding: before[place] === after });
    if (after >= 0 && !out.some(item => item.binding)) out.push({ step: after, kind: nameOf(LANE), binding: true });
    return out.sort((a, b) => Number(b.binding) - Number(a.binding));
  }

  /** The loaded steps that wait for a step, those whose start it decided first. */
  after(step: number): Edge[] {
    const { bounds, step: steps, kind } = (this.later ??= this.reverse());
    const { after } = this.loaded.rows;
    const at = step - this.first;
    const out: Edge[] = [];
    for (let place = bounds[at]; place < bounds[at + 1]; place++) {
      const other = steps[place];
      out.push({ step: other, kind: nameOf(kind[place]), binding: after[other - this.first] === step });
    }
    return out.sort((a, b) => Number(b.binding) - Number(a.binding));
  }

  private reverse(): { bounds: Uint32Array; step: Uint32Array; kind: Uint8Array } {
    const { count } = this.loaded;
    const bounds = new Uint32Array(count + 2);
    this.each(before => bounds[before + 2]++);
    for (let i = 2; i < bounds.length; i++) bounds[i] += bounds[i - 1];
    const step = new Uint32Array(bounds[count + 1]);
    const kind = new Uint8Array(step.length);
    this.each((before, at, name) => {
      const place = bounds[before + 1]++;
      step[place] = this.first + at;
      kind[place] = name;
    });
    return { bounds, step, kind };
  }

  /** Call `visit` for each edge between loaded rows, by place. */
  private each(visit: (before: number, at: number, kind: number) => void): void {
    const { count, edge, before, kinds, rows } = this.loaded;
    for (let at = 0; at < count; at++) {
      const after = rows.after[at] - this.first;
      let isThere = rows.after[at] < 0;
      for (let place = edge[at]; place < edge[at + 1]; place++) {
        const other = before[place] - this.first;
        if (other === after) isThere = true;
        if (other >= 0 && other < count) visit(other, at, kinds[place]);
      }
      if (!isThere && after >= 0 && after < count) visit(after, at, LANE);
    }
  }
}

function nameOf(kind: number): Edge['kind'] {
  return kind === LANE ? 'lane' : (KINDS[kind] ?? 'user');
}
