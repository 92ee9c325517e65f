/** Buffers as rows and columns of elements, and what a view touches of them. */
import { DTYPE_BYTES, INDIRECTIONS } from '../../_generated/schema';
import type { Buffer, TileView } from '../../types';
import type { Picks } from './access';
import { elements, normal, slice, type Rect, type Slice } from './pattern';

/** Rectangles that a slice is drawn with at most. */
const RECTS = 48;
/** Rows that run-time indices select are drawn one by one up to so many. */
const PICKED = 256;

/** A buffer as rows of `columns` elements of a view's dtype; `known` is false where its shape is not recorded. */
export interface Layout {
  readonly rows: number;
  readonly columns: number;
  readonly known: boolean;
}

/** Bytes of an element; 0: nobody knows. */
export function bytesOf(dtype: string): number {
  return DTYPE_BYTES[dtype] ?? 0;
}

/** On-chip the rows are partitions, in HBM all dimensions but the last. */
export function layoutOf(buffer: Buffer, view: TileView): Layout {
  const size = bytesOf(view.dtype);
  const { shape } = buffer;
  if (buffer.space !== 'hbm') {
    const held = shape.slice(1).reduce((product, length) => product * length, 1);
    const inView = size > 0 ? Math.floor(buffer.partitionBytes / size) : 0;
    return { rows: Math.max(buffer.partitions, 1), columns: Math.max(inView || held, 1), known: true };
  }
  if (buffer.dtype === '') return framing(view);
  const last = shape[shape.length - 1] ?? 1;
  const ratio = size > 0 && bytesOf(buffer.dtype) > 0 ? bytesOf(buffer.dtype) / size : 1;
  const rows = shape.slice(0, -1).reduce((product, length) => product * length, 1);
  return { rows: Math.max(rows, 1), columns: Math.max(Math.floor(last * ratio), 1), known: true };
}

/** Of a tensor without a shape, as much as the view shows. */
function framing(view: TileView): Layout {
  const pattern = normal(view.dims, view.offset);
  const [outer] = pattern.dims;
  const last = pattern.dims.reduce((end, [size, step]) => end + (size - 1) * step, pattern.offset);
  const columns = Math.max(pattern.dims.length > 1 ? outer[1] : last + 1, 1);
  return { rows: Math.floor(last / columns) + 1, columns, known: false };
}

/**
 * What a view touches, on its buffer's layout. Run-time indices move it, each of those in the tensor a row of a "vector"
 * view; where nobody knows them, and for other indices, it is a frame around what they may reach.
 */
export function sliceOf(view: TileView, layout: Layout, picks: Picks | null): Slice {
  const indirect = INDIRECTIONS[view.indirect] ?? 'none';
  if (indirect === 'none') return slice(view.dims, view.offset, layout.columns, RECTS);
  const { bounds } = slice(view.dims, view.offset, layout.columns, RECTS);
  if (bounds === null) return { rects: [], bounds, exact: false };
  const anywhere = { row: 0, column: 0, rows: layout.rows, columns: layout.columns };
  if (indirect === 'gather') {
    const rows = { ...bounds, column: 0, columns: layout.columns };
    return { rects: [rows], bounds: rows, exact: false };
  }
  if (picks !== null) return picked(view, layout, picks, indirect === 'vector');
  const step = view.dims[0]?.[1] ?? 0;
  if (indirect !== 'vector' || step <= 0 || step % layout.columns !== 0)
    return { rects: [anywhere], bounds: anywhere, exact: false };
  const inner = slice(view.dims.slice(1), view.offset, layout.columns, RECTS).bounds ?? bounds;
  const reach = { ...inner, row: 0, rows: layout.rows };
  return { rects: [reach], bounds: reach, exact: false };
}

/** The rows that indices select, or the whole view where one index moves it. */
function picked(view: TileView, layout: Layout, picks: Picks, isVector: boolean): Slice {
  const dims = isVector ? view.dims.slice(1) : view.dims;
  const inside = [...new Set(picks.values)].filter(value => isInside(picks, value)).sort((one, other) => one - other);
  const [first] = inside;
  const last = inside[inside.length - 1];
  if (first === undefined) return { rects: [], bounds: null, exact: true };
  const at = (value: number): Slice => slice(dims, view.offset + value * picks.stride, layout.columns, RECTS);
  const bounds = around(at(first).bounds, at(last).bounds);
  if (inside.length > PICKED) return { rects: bounds ? [bounds] : [], bounds, exact: false };
  const slices = inside.map(at);
  return { rects: slices.flatMap(item => item.rects), bounds, exact: slices.every(item => item.exact) };
}

/** Whether an index leads to a place in its tensor. */
export function isInside(picks: Picks, value: number): boolean {
  return value >= picks.lowest && value <= picks.highest;
}

function around(one: Rect | null, other: Rect | null): Rect | null {
  if (one === null || other === null) return one ?? other;
  const row = Math.min(one.row, other.row);
  const column = Math.min(one.column, other.column);
  return {
    row,
    column,
    rows: Math.max(one.row + one.rows, other.row + other.rows) - row,
    columns: Math.max(one.column + one.columns, other.column + other.columns) - column,
  };
}

/** Bytes that a view steps through; 0 where its dtype is unknown. */
export function viewBytes(view: TileView): number {
  return elements(view.dims) * bytesOf(view.dtype);
}
