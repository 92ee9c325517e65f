/** The values of a tile as read from a message of nki_lab/wire/values.py. */

import { MARKS, type ValuesHeader } from './_generated/schema';
import type { Message, Numbers } from './wire';
import { decode, WireError } from './wire';

/** An element with all that is known of it. */
export interface Element {
  readonly value: number;
  /** Its bits; null where the message has none, as of a difference. */
  readonly bits: number | null;
  /** Flags of `MARKS`. */
  readonly marks: number;
  readonly reference: number | null;
  readonly error: number | null;
}

/** Cells of a heat map, row by row; a cell stands for `rowBin` × `columnBin` elements. */
export interface Cells {
  readonly rows: number;
  readonly columns: number;
  readonly value: Numbers;
  readonly marks: Numbers;
  readonly reference: Numbers | null;
  readonly error: Numbers | null;
}

export class TileValues {
  readonly cells: Cells;
  /** Counts of finite elements in equal steps from `low` to `high`; null where there is no finite element. */
  readonly histogram: Numbers | null;
  readonly referenceHistogram: Numbers | null;
  private readonly elements: Elements;
  private readonly powers: Numbers | null;

  constructor(
    readonly header: ValuesHeader,
    message: Message,
  ) {
    const { rows, columns, row_bin: rowBin, column_bin: columnBin, excerpt } = header;
    const column = (table: string, name: string): Numbers | null =>
      message.has(table, name) ? message.column(table, name) : null;
    this.cells = {
      rows: Math.ceil(rows / rowBin),
      columns: Math.ceil(columns / columnBin),
      value: message.column('cells', 'value'),
      marks: message.column('cells', 'marks'),
      reference: column('cells', 'reference'),
      error: column('cells', 'error'),
    };
    const count = this.cells.rows * this.cells.columns;
    for (const found of [this.cells.value, this.cells.marks, this.cells.reference, this.cells.error])
      if (found !== null && found.length !== count) throw new WireError('The values have the wrong number of cells.');
    this.histogram = column('histogram', 'count');
    this.referenceHistogram = column('histogram', 'reference');
    this.powers = column('scales', 'power');
    const [row, first, height, width] = excerpt.length === 4 ? excerpt : [0, 0, rows, columns];
    const table = excerpt.length === 4 ? 'excerpt' : 'cells';
    this.elements = {
      row,
      column: first,
      rows: height,
      columns: width,
      value: message.column(table, 'value'),
      marks: message.column(table, 'marks'),
      bits: column(excerpt.length === 4 ? 'excerpt' : 'bits', 'bits'),
      reference: column(table, 'reference'),
      error: column(table, 'error'),
    };
  }

  /** True if a cell is one element. */
  get isWhole(): boolean {
    return this.header.excerpt.length !== 4;
  }

  /** An element; null where its number was not sent. */
  at(row: number, column: number): Element | null {
    const { elements } = this;
    const [y, x] = [row - elements.row, column - elements.column];
    if (y < 0 || x < 0 || y >= elements.rows || x >= elements.columns) return null;
    const at = y * elements.columns + x;
    return {
      value: elements.value[at],
      bits: this.bitsAt(at),
      marks: elements.marks[at],
      reference: elements.reference?.[at] ?? null,
      error: elements.error?.[at] ?? null,
    };
  }

  /** The exponent of two of the block that an element is in; null without scales, NaN where it is unknown. */
  powerAt(row: number, column: number): number | null {
    const [height, width] = this.header.block;
    if (this.powers === null || height === undefined || width === undefined) return null;
    const across = Math.ceil(this.header.columns / width);
    return this.powers[Math.floor(row / height) * across + Math.floor(column / width)] ?? null;
  }

  /** Place of the next element in reading order, after a given one and around the end, that has a mark. */
  next(mark: number, row: number, column: number): { readonly row: number; readonly column: number } | null {
    const { cells, header } = this;
    const count = cells.rows * cells.columns;
    const from = Math.floor(row / header.row_bin) * cells.columns + Math.floor(column / header.column_bin);
    for (let by = 1; by <= count; by++) {
      const at = (from + by) % count;
      if (cells.marks[at] & mark)
        return {
          row: Math.floor(at / cells.columns) * header.row_bin,
          column: (at % cells.columns) * header.column_bin,
        };
    }
    return null;
  }

  private bitsAt(at: number): number | null {
    const { kind, width, when } = this.header;
    const { bits, value } = this.elements;
    if (bits !== null) return bits[at];
    if (when === 'change') return null;
    if (kind !== 'float' && kind !== 'packed') return value[at] < 0 ? value[at] + 2 ** width : value[at];
    if (!(value instanceof Float32Array)) return null;
    // The bits of the column itself: a payload of NaN does not survive as a number.
    return new Uint32Array(value.buffer, value.byteOffset + 4 * at, 1)[0];
  }
}

interface Elements extends Cells {
  readonly row: number;
  readonly column: number;
  readonly bits: Numbers | null;
}

/** The values in a message; WireError if it has none. */
export function decodeValues(bytes: ArrayBuffer | ArrayBufferView): TileValues {
  const message = decode(bytes);
  if (!message.has('cells')) throw new WireError('It has no values.');
  return new TileValues(message.header as unknown as ValuesHeader, message);
}

/** True where a flag of `MARKS` is set. */
export function isMarked(marks: number, name: keyof typeof MARKS): boolean {
  return (marks & MARKS[name]) !== 0;
}
