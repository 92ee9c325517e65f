/**
 * Access patterns as geometry: [size, step] of each dimension and an offset, in elements of one dtype, become
 * contiguous runs, and rectangles on a buffer that is drawn as rows and columns. All functions are pure.
 */

export type Dims = readonly (readonly [size: number, step: number])[];

/** A pattern without order: steps are positive, no dimension is of size 1 or broadcast, the largest step is first. */
export interface Normal {
  readonly offset: number;
  readonly dims: Dims;
  /** False: it has no elements. */
  readonly some: boolean;
}

export interface Run {
  readonly start: number;
  readonly length: number;
}

export interface Rect {
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

/** `exact` is false where the rectangles are a frame around what is touched. */
export interface Slice {
  readonly rects: readonly Rect[];
  readonly bounds: Rect | null;
  readonly exact: boolean;
}

/** How many elements the pattern steps through. */
export function elements(dims: Dims): number {
  return dims.reduce((product, [size]) => product * Math.max(size, 0), 1);
}

/** How often each element is read: the product of the sizes of dimensions with step 0. */
export function repeats(dims: Dims): number {
  return dims.reduce((product, [size, step]) => (step === 0 ? product * size : product), 1);
}

/** The addresses of a pattern as a set: neighbours that continue each other are merged. */
export function normal(dims: Dims, offset: number): Normal {
  if (dims.some(([size]) => size <= 0)) return { offset, dims: [], some: false };
  let begin = offset;
  const used: [number, number][] = [];
  for (const [size, step] of dims) {
    if (size === 1 || step === 0) continue;
    if (step < 0) begin += step * (size - 1);
    used.push([size, Math.abs(step)]);
  }
  used.sort((one, other) => other[1] - one[1]);
  const merged: [number, number][] = [];
  for (const [size, step] of used) {
    const last = merged[merged.length - 1];
    if (last?.[1] === step * size) merged[merged.length - 1] = [last[0] * size, step];
    else merged.push([size, step]);
  }
  return { offset: begin, dims: merged, some: true };
}

/** The last address. */
function end({ offset, dims }: Normal): number {
  return dims.reduce((last, [size, step]) => last + (size - 1) * step, offset);
}

/** Contiguous runs in order of address, at most `limit` of them, with how many there are in all. Runs that overlap, as
 * those of a sliding pattern do, count one by one in `count`. */
export function runs(dims: Dims, offset: number, limit: number): { runs: Run[]; count: number } {
  const pattern = normal(dims, offset);
  if (!pattern.some) return { runs: [], count: 0 };
  const inner = pattern.dims[pattern.dims.length - 1];
  const isDense = inner?.[1] === 1;
  const outer = isDense ? pattern.dims.slice(0, -1) : pattern.dims;
  const length = isDense ? inner[0] : 1;
  const count = outer.reduce((product, [size]) => product * size, 1);
  const out: Run[] = [];
  const place = outer.map(() => 0);
  for (let number = 0; number < Math.min(count, limit); number += 1) {
    const start = outer.reduce((sum, [, step], i) => sum + place[i] * step, pattern.offset);
    out.push({ start, length });
    for (let i = outer.length - 1; i >= 0; i -= 1) {
      place[i] += 1;
      if (place[i] < outer[i][0]) break;
      place[i] = 0;
    }
  }
  return { runs: out.sort((one, other) => one.start - other.start), count };
}

/** What a pattern touches of a buffer drawn as rows of `pitch` elements: at most about `limit` rectangles. */
export function slice(dims: Dims, offset: number, pitch: number, limit: number): Slice {
  const pattern = normal(dims, offset);
  if (!pattern.some || !(pitch > 0)) return { rects: [], bounds: null, exact: !pattern.some };
  const isDown = (step: number): boolean => step >= pitch && step % pitch === 0;
  const down = pattern.dims.filter(([, step]) => isDown(step)).map(([size, step]) => [size, step / pitch] as const);
  const across = pattern.dims.filter(([, step]) => !isDown(step));
  const row = Math.floor(pattern.offset / pitch);
  const column = pattern.offset - row * pitch;
  const span = across.reduce((sum, [size, step]) => sum + (size - 1) * step, 1);
  if (column + span > pitch) return wrapped(pattern, pitch, limit);
  const rows = stretches(down, row, limit);
  const columns = stretches(across, column, limit);
  const bounds = {
    row,
    column,
    rows: down.reduce((sum, [size, step]) => sum + (size - 1) * step, 1),
    columns: span,
  };
  if (rows === null || columns === null || rows.length * columns.length > limit)
    return { rects: coarse(rows, columns, bounds, limit), bounds, exact: false };
  const rects = rows.flatMap(one =>
    columns.map(other => ({ row: one.start, rows: one.length, column: other.start, columns: other.length })),
  );
  return { rects, bounds, exact: true };
}

/** Rectangles that frame what there are too many of: whole rows or whole columns, if one of them is few. */
function coarse(rows: readonly Run[] | null, columns: readonly Run[] | null, bounds: Rect, limit: number): Rect[] {
  if (columns !== null && columns.length <= limit && (rows === null || columns.length <= rows.length))
    return columns.map(run => ({ ...bounds, column: run.start, columns: run.length }));
  if (rows !== null && rows.length <= limit) return rows.map(run => ({ ...bounds, row: run.start, rows: run.length }));
  return [bounds];
}

/** Stretches of one axis in order, merged; null where there are too many. */
function stretches(dims: Dims, offset: number, limit: number): Run[] | null {
  const found = runs(dims, offset, limit + 1);
  return found.count > limit ? null : merge(found.runs);
}

function merge(sorted: readonly Run[]): Run[] {
  const out: Run[] = [];
  for (const run of sorted) {
    const last = out[out.length - 1];
    if (last !== undefined && run.start <= last.start + last.length) {
      const length = Math.max(last.length, run.start + run.length - last.start);
      out[out.length - 1] = { start: last.start, length };
    } else out.push(run);
  }
  return out;
}

/** A pattern that goes over the ends of rows: run by run. */
function wrapped(pattern: Normal, pitch: number, limit: number): Slice {
  const last = end(pattern);
  const first = Math.floor(pattern.offset / pitch);
  const bounds = { row: first, column: 0, rows: Math.floor(last / pitch) - first + 1, columns: pitch };
  const found = runs(pattern.dims, pattern.offset, limit + 1);
  if (found.count > limit) return { rects: [bounds], bounds, exact: false };
  const rects: Rect[] = [];
  for (const { start, length } of merge(found.runs)) {
    const stop = start + length;
    for (let at = start; at < stop;) {
      const row = Math.floor(at / pitch);
      const column = at - row * pitch;
      const whole = column === 0 ? Math.floor((stop - at) / pitch) : 0;
      const rows = Math.max(whole, 1);
      const columns = whole > 0 ? pitch : Math.min(pitch - column, stop - at);
      rects.push({ row, column, rows, columns });
      at += whole > 0 ? whole * pitch : columns;
    }
  }
  return { rects, bounds, exact: true };
}

/** True where two frames share an element. */
export function meet(one: Rect | null, other: Rect | null): boolean {
  if (one === null || other === null) return false;
  return (
    one.row < other.row + other.rows &&
    other.row < one.row + one.rows &&
    one.column < other.column + other.columns &&
    other.column < one.column + one.columns
  );
}
