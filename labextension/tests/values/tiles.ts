/** Messages of values, as nki_lab/wire/values.py makes them. */
import type { ValuesHeader } from '../../src/_generated/schema';
import { message } from '../messages';

export interface TileGiven {
  readonly header?: Partial<ValuesHeader>;
  readonly rows: readonly (readonly number[])[];
  readonly marks?: readonly (readonly number[])[];
  readonly bits?: readonly number[];
  readonly reference?: readonly number[];
  readonly error?: readonly number[];
  readonly powers?: readonly number[];
  readonly excerpt?: readonly number[];
}

/** A message whose cells are its elements, unless its header says otherwise. */
export function valuesMessage(given: TileGiven, types: Readonly<Record<string, string>> = {}): ArrayBuffer {
  const rows = given.rows.length;
  const columns = given.rows[0]?.length ?? 0;
  const value = given.rows.flat();
  const marks = (given.marks ?? given.rows.map(row => row.map(() => 0))).flat();
  const finite = value.filter(Number.isFinite);
  return message(
    {
      header: {
        kind: 'float', dtype: 'float32', request: 1, step: 0, buffer: 0, when: 'after', against: '', references: [],
        shape: [rows, columns], lead: 1, rows, columns, row_bin: 1, column_bin: 1, width: 32, digits: 9, mantissa: 23,
        largest: 3.4e38, smallest: 1.2e-38, block: [], excerpt: [], written_known: true,
        counts: { nan: 0, inf: 0, saturated: 0, subnormal: 0, zero: 0, unwritten: 0 },
        low: Math.min(...finite), high: Math.max(...finite), mean: 0, std: 1,
        ...given.header,
      },
      tables: {
        cells: {
          value, marks,
          ...(given.reference && { reference: given.reference }), ...(given.error && { error: given.error }),
        },
        ...(given.excerpt && { excerpt: { value: given.excerpt, marks: given.excerpt.map(() => 0) } }),
        ...(given.bits && { bits: { bits: given.bits } }),
        ...(given.powers && { scales: { power: given.powers } }),
        histogram: { count: [1, 2, 3] },
      },
    },
    { 'cells.marks': 'u1', 'cells.value': 'f4', 'excerpt.value': 'f4', ...types },
  );
} // prettier-ignore

/** The bytes as the page gets them from the kernel. */
export function view(bytes: ArrayBuffer): DataView {
  return new DataView(bytes);
}
