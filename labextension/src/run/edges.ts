/** Which rows wait for which, both ways. */

import { EDGE_KINDS } from '../_generated/schema';
import type { Edge } from '../types';
import type { LoadedRows } from './rows';
import { upper } from './search';

/** A row that follows another on its lane needs no edge; where that other let it start, it is shown as one. */
const LANE = EDGE_KINDS.length;
/** So many questions are answered by searching. */
const SEARCHES = 8;

export class Edges {
  private readonly first: number;
  private asked = 0;
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
    const { after } = this.loaded.rows;
    // Turning all edges round takes as long as a few searches through them: not worth it while rows still come.
    const found = this.asked++ < SEARCHES ? this.search(step) : this.look(step);
    return found
      .map(([other, kind]) => ({
        step: other,
        kind: nameOf(kind),
        binding: after[other - this.first] === step,
      }))
      .sort((a, b) => Number(b.binding) - Number(a.binding));
  }

  /** Steps and kinds of those that wait for a step, in order, by looking at every edge. */
  private search(step: number): [number, number][] {
    const { count, edge, before, kinds, rows } = this.loaded;
    const { after } = rows;
    const out: [number, number][] = [];
    const end = edge[count];
    for (let place = 0; place < end; place++)
      if (before[place] === step) out.push([this.first + upper(edge, count + 1, place) - 1, kinds[place]]);
    for (let at = 0; at < count; at++) if (after[at] === step && !this.has(at, step)) out.push([this.first + at, LANE]);
    return out.sort(([a], [b]) => a - b);
  }

  /** True if the row at a place has an edge from a step. */
  private has(at: number, step: number): boolean {
    const { edge, before } = this.loaded;
    for (let place = edge[at]; place < edge[at + 1]; place++) if (before[place] === step) return true;
    return false;
  }

  private look(step: number): [number, number][] {
    const { bounds, step: steps, kind } = (this.later ??= this.reverse());
    const out: [number, number][] = [];
    for (let place = bounds[step - this.first]; place < bounds[step - this.first + 1]; place++)
      out.push([steps[place], kind[place]]);
    return out;
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
  return EDGE_KINDS[kind] ?? 'lane';
}
