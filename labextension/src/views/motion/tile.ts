/** A buffer to scale, with the slice that an instruction touches; shade tells the source partition. */
import { svg } from '../../dom';
import type { Arrangement } from '../../_generated/schema';
import * as format from '../../format';
import type { Operand } from './model';
import type { Rect } from './pattern';

/** Beyond this ratio of the sides a drawing is cut, and marked. */
const RATIO = 8;
const BANDS = 12;
const LEAST = 2;
/** Rectangles that are each drawn at least `LEAST` large, and the share of the height that more of them may fill. */
const FEW = 6;
const FILLED = 0.4;
const LIGHT = 0.35;
/** The least side of a drawing that has room for the mark of a cut. */
const CUT = 12;

export interface Box {
  readonly width: number;
  readonly height: number;
}

export interface TileOptions {
  readonly box: Box;
  /** Rows and columns are numbered, and on-chip all partitions are drawn. */
  readonly axes: boolean;
  /** Partitions of the memory; 0: unknown. */
  readonly partitions: number;
  /** The dimension of the view that shade follows; -1: none. */
  readonly shadeBy: number;
}

export interface Tile {
  readonly element: SVGSVGElement;
  readonly width: number;
  readonly height: number;
  /** The middle of what is drawn, from the top. */
  readonly middle: number;
  /** Show a share of the slice as written, from 0 to 1. */
  fill(share: number): void;
}

/** The dimension of an operand in whose order elements of a source's first dimension lie; -1: that is unknown. */
export function shadeOf(item: Operand, arrangement: Arrangement): number {
  if (item.indirect !== 'none' && !item.slice.exact) return -1; // nobody knows which rows
  const isResult = item.role !== 'read';
  if (arrangement === 'undeclared' || arrangement === 'product') return -1;
  const { dims } = item.view;
  if (isResult && arrangement === 'transposed') return dims.length - 1;
  const first = dims.findIndex(([size]) => size > 1);
  return first;
}

/** Draw an operand within a box. */
export function tile(item: Operand, { box, axes, partitions, shadeBy }: TileOptions): Tile {
  const onChip = item.buffer.space !== 'hbm';
  const above = axes && onChip ? Math.max(item.buffer.partition, 0) : 0;
  const rows = axes && onChip ? Math.max(partitions, above + item.layout.rows) : item.layout.rows;
  const { columns } = item.layout;
  const left = axes ? 34 : 0;
  const top = axes ? 16 : 0;
  const room = { width: Math.max(box.width - left - 1, 8), height: Math.max(box.height - top - 1, 8) };
  const size = fitted(rows, columns, room);
  const element = svg('svg', {
    class: 'nki-mo-tile',
    width: left + size.width + 1,
    height: top + size.height + 1,
    'aria-hidden': 'true',
    style: `--hue: var(--nki-${item.hue})`,
  });
  const origin = { x: left + 0.5, y: top + 0.5 };
  const own = (above * size.height) / rows;
  element.append(
    svg('rect', { class: 'nki-mo-buffer', x: origin.x, y: origin.y, width: size.width, height: size.height }),
  );
  const scale = { x: size.width / columns, y: size.height / rows };
  const { rects, bounds, exact } = item.slice;
  const place = (rect: Rect, least = LEAST): Rect => within(rect, scale, origin, own, size, least);
  // Rows that are thinner than can be seen may not look like all of the tensor.
  const least = rects.length > FEW ? Math.min(LEAST, (size.height * FILLED) / rects.length) : LEAST;
  const cover = svg('rect', { class: 'nki-mo-cover', width: 0, height: 0, x: 0, y: 0 });
  let frame: Rect | null = null;
  if (bounds) {
    frame = place(bounds);
    const shade = shadeBy < 0 ? null : axisOf(item, shadeBy);
    for (const rect of rects) element.append(...bands(place(rect, least), frame, shade, rects.length, exact));
    element.append(cover);
    element.append(
      svg('rect', {
        class: exact ? 'nki-mo-frame' : 'nki-mo-frame nki-mo-about',
        x: frame.column,
        y: frame.row,
        width: frame.columns,
        height: frame.rows,
        rx: 2,
      }),
    );
  }
  if (size.cut && Math.min(size.width, size.height) >= CUT)
    element.append(svg('path', { class: 'nki-mo-cut', d: cutMark(origin, size, columns > rows) }));
  if (axes) element.append(...numbers(item, rows, columns, above, size, origin, frame));
  return {
    element,
    width: left + size.width + 1,
    height: top + size.height + 1,
    middle: top + size.height / 2,
    fill(share) {
      if (frame === null) return;
      const byRows = !columnsFirst(item);
      const rest = 1 - Math.min(Math.max(share, 0), 1);
      const width = byRows ? frame.columns : frame.columns * rest;
      const height = byRows ? frame.rows * rest : frame.rows;
      cover.setAttribute('x', String(frame.column + frame.columns - width));
      cover.setAttribute('y', String(frame.row + frame.rows - height));
      cover.setAttribute('width', String(rest > 0 ? width : 0));
      cover.setAttribute('height', String(rest > 0 ? height : 0));
    },
  };
}

/** Tiles on the chip fill along their free dimension, tensors in HBM row by row. */
function columnsFirst(item: Operand): boolean {
  return item.buffer.space !== 'hbm';
}

/** The size of a drawing in true proportions, cut where they go beyond `RATIO`. */
export function fitted(rows: number, columns: number, room: Box): Box & { readonly cut: boolean } {
  const ratio = columns / rows;
  const bounded = Math.min(Math.max(ratio, 1 / RATIO), RATIO);
  const width = Math.min(room.width, room.height * bounded);
  const height = Math.min(room.height, width / bounded);
  return { width, height, cut: bounded !== ratio };
}

function within(
  rect: Rect,
  scale: { x: number; y: number },
  origin: { x: number; y: number },
  own: number,
  size: Box,
  least: number,
): Rect {
  const width = Math.min(Math.max(rect.columns * scale.x, least), size.width);
  const height = Math.min(Math.max(rect.rows * scale.y, least), size.height);
  const x = Math.min(rect.column * scale.x, size.width - width);
  const y = Math.min(own + rect.row * scale.y, size.height - height);
  return { column: origin.x + x, row: origin.y + y, columns: width, rows: height };
}

interface Shade {
  readonly byRows: boolean;
  readonly down: boolean;
}

function axisOf(item: Operand, dim: number): Shade {
  const [, step] = item.view.dims[dim] ?? [1, 1];
  return { byRows: Math.abs(step) >= item.layout.columns, down: step < 0 };
}

/** A rectangle in bands whose strength follows the source partition. */
function bands(rect: Rect, frame: Rect, shade: Shade | null, among: number, exact: boolean): SVGElement[] {
  const draw = (part: Rect, strength: number): SVGElement =>
    svg('rect', {
      class: exact ? 'nki-mo-slice' : 'nki-mo-slice nki-mo-sparse',
      x: part.column,
      y: part.row,
      width: part.columns,
      height: part.rows,
      'fill-opacity': Number(strength.toFixed(3)),
    });
  if (shade === null) return [draw(rect, 0.85)];
  const length = shade.byRows ? rect.rows : rect.columns;
  const count = among > FEW ? 1 : Math.max(1, Math.min(BANDS, Math.floor(length / 3)));
  return Array.from({ length: count }, (_, band) => {
    const part = shade.byRows
      ? { ...rect, row: rect.row + (band * rect.rows) / count, rows: rect.rows / count }
      : { ...rect, column: rect.column + (band * rect.columns) / count, columns: rect.columns / count };
    const at = shade.byRows
      ? (part.row + part.rows / 2 - frame.row) / frame.rows
      : (part.column + part.columns / 2 - frame.column) / frame.columns;
    return draw(part, LIGHT + (1 - LIGHT) * (shade.down ? 1 - at : at));
  });
}

function cutMark(origin: { x: number; y: number }, size: Box, isWide: boolean): string {
  const x = origin.x + size.width - (isWide ? 9 : size.width / 2);
  const y = origin.y + (isWide ? size.height / 2 : size.height - 9);
  return `M${x - 3} ${y + 4}l4 -8M${x + 1} ${y + 4}l4 -8`;
}

/** First and last rows and columns of the drawing, and of the slice where there is room. */
function numbers(
  item: Operand,
  rows: number,
  columns: number,
  above: number,
  size: Box,
  origin: { x: number; y: number },
  frame: Rect | null,
): SVGElement[] {
  const out: SVGElement[] = [];
  const label = (x: number, y: number, text: string, anchor: string, strong = false): void => {
    const attributes = { class: strong ? 'nki-mo-axis nki-mo-strong' : 'nki-mo-axis', x, y, 'text-anchor': anchor };
    out.push(svg('text', attributes, text));
  };
  label(origin.x - 5, origin.y + 9, '0', 'end');
  if (size.height > 24) label(origin.x - 5, origin.y + size.height, format.count(rows - 1), 'end');
  const { bounds } = item.slice;
  const right = origin.x + size.width;
  if (!bounds || !frame) {
    label(right, origin.y - 4, format.count(columns), 'end');
    return out;
  }
  const first = format.count(bounds.column);
  const last = format.count(bounds.column + bounds.columns);
  const isWhole = bounds.columns === columns;
  const begin = Math.max(frame.column, origin.x);
  const end = frame.column + frame.columns;
  if (isWhole) label(right, origin.y - 4, format.count(columns), 'end', true);
  else if (end - begin > 7 * (first.length + last.length)) {
    label(begin, origin.y - 4, first, 'start', true);
    label(end, origin.y - 4, last, 'end', true);
  } else if (end + 90 < right) label(begin, origin.y - 4, `${first}–${last}`, 'start', true);
  else label(end, origin.y - 4, `${first}–${last}`, 'end', true);
  if (!isWhole && end + 40 < right && end - begin > 40) label(right, origin.y - 4, format.count(columns), 'end');
  const taken = [bounds.row + above, bounds.row + above + bounds.rows - 1];
  const top = frame.row;
  if (taken[0] > 0 && top - origin.y > 20) label(origin.x - 5, top + 8, format.count(taken[0]), 'end', true);
  const bottom = frame.row + frame.rows;
  if (taken[1] < rows - 1 && origin.y + size.height - bottom > 12 && bottom - origin.y > 18)
    label(origin.x - 5, bottom, format.count(taken[1]), 'end', true);
  return out;
}
