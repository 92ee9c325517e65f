/** Cells of a tile as pixels: how large a cell is, what several cells in one pixel show, and which patches are marked. */
import { MARKS } from '../../_generated/schema';
import { createStrip, type Strip } from '../../canvas/strip';
import type { Rgb } from '../../canvas/rgb';
import type { Cells } from '../../tile_values';
import type { Scale } from './colours';

/** How cells lie in a picture: `wide` × `high` pixels each, or about `across` × `down` of them in one pixel. */
export interface Fit {
  readonly columns: number;
  readonly rows: number;
  readonly across: number;
  readonly down: number;
  readonly wide: number;
  readonly high: number;
}

/** The largest cells of whole pixels that fit; where none do, as many cells in a pixel as it takes. */
export function fitCells(cells: Pick<Cells, 'rows' | 'columns'>, width: number, height: number): Fit {
  const along = (count: number, room: number): readonly [number, number, number] => {
    if (count <= 0 || room < 1) return [0, 1, 1];
    if (count <= room) return [count, 1, Math.floor(room / count)];
    return [Math.floor(room), count / Math.floor(room), 1];
  };
  const [columns, across, wide] = along(cells.columns, width);
  const [rows, down, high] = along(cells.rows, height);
  // Few cells are no stripes.
  const least = Math.min(wide, high);
  return { columns, across, wide: Math.min(wide, 3 * least), rows, down, high: Math.min(high, 3 * least) };
}

/** What a pixel or a cell of the picture shows. */
export interface Bin {
  readonly value: number;
  readonly marks: number;
}

/** The largest magnitude of the cells in a place of the picture, and every mark. */
export function binAt(cells: Pixels, of: ArrayLike<number>, fit: Fit, row: number, column: number): Bin {
  let value = 0;
  let size = -1;
  let marks = 0;
  const [top, bottom] = covered(row, fit.down, cells.rows);
  const [left, right] = covered(column, fit.across, cells.columns);
  for (let y = top; y < bottom; y++) {
    for (let x = left; x < right; x++) {
      const at = y * cells.columns + x;
      marks |= cells.marks[at];
      if (cells.marks[at] & MARKS.unwritten) continue;
      const here = Math.abs(of[at]);
      if (here > size && here < Infinity) {
        size = here;
        value = of[at];
      }
    }
  }
  return { value, marks };
}

/** Flags for NaN and infinities among values; what nothing wrote stays what it is. */
export function marksOf(of: ArrayLike<number>, marks: ArrayLike<number>): Uint8Array {
  const own = new Uint8Array(of.length);
  for (let at = 0; at < own.length; at++) {
    if (marks[at] & MARKS.unwritten) own[at] = MARKS.unwritten;
    else if (Number.isNaN(of[at])) own[at] = MARKS.nan;
    else if (Math.abs(of[at]) === Infinity) own[at] = MARKS.inf;
  }
  return own;
}

/** The first cell of a place, and the one after its last. */
export function covered(place: number, each: number, count: number): readonly [number, number] {
  const end = Math.min(count, Math.floor((place + 1) * each + 1e-9));
  return [Math.min(Math.floor(place * each + 1e-9), end), end];
}

/** A patch of cells with NaN or infinities, in pixels of the picture's grid; ends are inside. */
export interface Patch {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  readonly nan: number;
  readonly inf: number;
}

/** What is painted of cells. */
export interface Pixels {
  readonly rows: number;
  readonly columns: number;
  readonly marks: ArrayLike<number>;
}

export interface Painted {
  readonly strip: Strip;
  readonly fit: Fit;
  readonly patches: readonly Patch[];
}

const MOST_PATCHES = 5;
/** Marked pixels so near to each other are one patch. */
const NEAR = 6;

/** Paint cells. NaN and infinities are a checker of black and white, what nothing wrote is dotted. */
export function paint(
  cells: Pixels,
  of: ArrayLike<number>,
  fit: Fit,
  scale: Scale,
  ink: readonly [Rgb, Rgb, Rgb],
): Painted {
  const strip = createStrip(Math.max(1, fit.columns), Math.max(1, fit.rows));
  const broken: [number, number, number][] = [];
  const none = scale.colour(0);
  for (let y = 0; y < fit.rows; y++) {
    for (let x = 0; x < fit.columns; x++) {
      const { value, marks } = binAt(cells, of, fit, y, x);
      if (marks & (MARKS.nan | MARKS.inf)) {
        strip.set(x, y, ink[(x + y) & 1], 1);
        broken.push([x, y, marks]);
      } else if (marks & MARKS.unwritten) strip.set(x, y, x % 3 === 1 && y % 3 === 1 ? ink[2] : none, 1);
      else strip.set(x, y, scale.colour(value), 1);
    }
  }
  return { strip, fit, patches: patchesOf(broken) };
}

/** Marked pixels in patches, the largest first; what is left over joins none. */
export function patchesOf(broken: readonly (readonly [number, number, number])[]): readonly Patch[] {
  const patches: { -readonly [K in keyof Patch]: Patch[K] }[] = [];
  for (const [x, y, marks] of broken) {
    const one = marks & MARKS.nan ? { nan: 1, inf: 0 } : { nan: 0, inf: 1 };
    const near = patches.find(
      patch => x >= patch.left - NEAR && x <= patch.right + NEAR && y >= patch.top - NEAR && y <= patch.bottom + NEAR,
    );
    if (near === undefined) {
      if (patches.length < 64) patches.push({ left: x, right: x, top: y, bottom: y, ...one });
      continue;
    }
    near.left = Math.min(near.left, x);
    near.right = Math.max(near.right, x);
    near.bottom = Math.max(near.bottom, y);
    near.nan += one.nan;
    near.inf += one.inf;
  }
  return patches.sort((one, other) => other.nan + other.inf - one.nan - one.inf).slice(0, MOST_PATCHES);
}
