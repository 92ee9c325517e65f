/** Buffers as rows and columns of elements, and what a view touches of them. */
import { DTYPE_BYTES, INDIRECTIONS } from '../../_generated/schema';
import type { Buffer, TileView } from '../../types';
import { elements, normal, slice, type Slice } from './pattern';

/** Rectangles that a slice is drawn with at most. */
const RECTS = 48;

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
 * What a view touches, on its buffer's layout. Run-time indices replace the rows of a "vector" view by those in
 * `values`; where nobody knows these, and for other indices, it is a frame around what they may reach.
 */
export function sliceOf(view: TileView, layout: Layout, values: ArrayLike<number> | null): Slice {
  const indirect = INDIRECTIONS[view.indirect] ?? 'none';
  if (indirect === 'none') return slice(view.dims, view.offset, layout.columns, RECTS);
  const { bounds } = slice(view.dims, view.offset, layout.columns, RECTS);
  if (bounds === null) return { rects: [], bounds, exact: false };
  const anywhere = { row: 0, column: 0, rows: layout.rows, columns: layout.columns };
  if (indirect === 'gather') {
    const rows = { ...bounds, column: 0, columns: layout.columns };
    return { rects: [rows], bounds: rows, exact: false };
  }
  const step = view.dims[0]?.[1] ?? 0;
  if (indirect !== 'vector' || step <= 0 || step % layout.columns !== 0)
    return { rects: [anywhere], bounds: anywhere, exact: false };
  const inner = slice(view.dims.slice(1), view.offset, layout.columns, RECTS).bounds ?? bounds;
  const reach = { ...inner, row: 0, rows: layout.rows };
  if (values === null || values.length > RECTS) return { rects: [reach], bounds: reach, exact: false };
  const each = step / layout.columns;
  const rects = Array.from(values, value => ({ ...inner, row: inner.row + value * each }));
  return { rects: rects.filter(rect => rect.row >= 0 && rect.row < layout.rows), bounds: reach, exact: true };
}

/** Bytes that a view steps through; 0 where its dtype is unknown. */
export function viewBytes(view: TileView): number {
  return elements(view.dims) * bytesOf(view.dtype);
}
