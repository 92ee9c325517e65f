// @vitest-environment node
import { describe, expect, test } from 'vitest';

import { MARKS } from '../../src/_generated/schema';
import { decodeValues } from '../../src/tile_values';
import { binAt, fitCells, marksOf, patchesOf } from '../../src/views/values/picture';
import { brief, exact, hex, indices, marksText, ulps } from '../../src/views/values/text';
import { valuesMessage } from './tiles';

const FLOAT = { kind: 'float', digits: 9 };

describe('values of a message', () => {
  test('are read with their bits, payloads of NaN included', () => {
    const bytes = valuesMessage({ rows: [[1, -2], [0.5, NaN]] }); // prettier-ignore
    const tile = decodeValues(bytes);
    expect(tile.at(0, 1)).toEqual({ value: -2, bits: 0xc0000000, marks: 0, reference: null, error: null });
    new Uint32Array(tile.cells.value.buffer, tile.cells.value.byteOffset, 4)[3] = 0xffc12345;
    expect(tile.at(1, 1)?.bits).toBe(0xffc12345);
    expect(tile.at(2, 0)).toBeNull();
    expect(tile.at(0, -1)).toBeNull();
  });

  test('have the bits of narrow floats, and of integers in two’s complement', () => {
    const narrow = decodeValues(valuesMessage({ rows: [[1, 448]], bits: [0x38, 0x7e], header: { width: 8 } }));
    expect(narrow.at(0, 1)?.bits).toBe(0x7e);
    const types = { 'cells.value': 'i1' };
    const whole = decodeValues(valuesMessage({ rows: [[-1, 3]], header: { kind: 'int', width: 8 } }, types));
    expect([whole.at(0, 0)?.bits, whole.at(0, 1)?.bits]).toEqual([255, 3]);
    const change = decodeValues(valuesMessage({ rows: [[1]], header: { when: 'change' } }));
    expect(change.at(0, 0)?.bits).toBeNull();
  });

  test('beyond the excerpt of a large tile are not made up', () => {
    const header = { rows: 100, columns: 100, row_bin: 50, column_bin: 50, excerpt: [10, 20, 2, 2] };
    const tile = decodeValues(valuesMessage({ rows: [[9, 8], [7, 6]], excerpt: [1, 2, 3, 4], header })); // prettier-ignore
    expect(tile.isWhole).toBe(false);
    expect(tile.at(11, 21)?.value).toBe(4);
    expect(tile.at(9, 20)).toBeNull();
  });

  test('know the scale of their block', () => {
    const tile = decodeValues(
      valuesMessage({ rows: Array.from({ length: 16 }, () => [1, 1, 1, 1, 1, 1, 1, 1]), powers: [1, 2, 3, NaN], header: { block: [8, 4] } }),
    ); // prettier-ignore
    expect(tile.powerAt(0, 0)).toBe(1);
    expect(tile.powerAt(7, 7)).toBe(2);
    expect(tile.powerAt(8, 3)).toBe(3);
    expect(tile.powerAt(15, 4)).toBeNaN();
  });

  test('lead to the next marked element, around the end', () => {
    const marks = [[0, MARKS.nan, 0], [MARKS.inf, 0, MARKS.nan]]; // prettier-ignore
    const tile = decodeValues(valuesMessage({ rows: [[1, NaN, 1], [Infinity, 2, NaN]], marks })); // prettier-ignore
    expect(tile.next(MARKS.nan, 0, 1)).toEqual({ row: 1, column: 2 });
    expect(tile.next(MARKS.nan, 1, 2)).toEqual({ row: 0, column: 1 });
    expect(tile.next(MARKS.unwritten, 0, 0)).toBeNull();
  });

  test('that are no values, or too few, are refused', () => {
    expect(() => decodeValues(new ArrayBuffer(4))).toThrow('fewer than any run');
    expect(() => decodeValues(valuesMessage({ rows: [[1, 2]], header: { rows: 3 } }))).toThrow('wrong number of cells');
  });

  test('may be none', () => {
    const tile = decodeValues(valuesMessage({ rows: [[]], header: { rows: 128, columns: 0 } }));
    expect(tile.at(0, 0)).toBeNull();
    expect(tile.next(MARKS.nan, 0, 0)).toBeNull();
  });
});

describe('a picture', () => {
  test('has cells of whole pixels where there is room, else several cells in one', () => {
    expect(fitCells({ rows: 4, columns: 5 }, 104, 100)).toMatchObject({ columns: 5, rows: 4, wide: 20, high: 25, across: 1 });
    expect(fitCells({ rows: 128, columns: 512 }, 400, 130)).toMatchObject({ columns: 400, rows: 128, wide: 1, high: 1, across: 1.28 });
    expect(fitCells({ rows: 0, columns: 0 }, 100, 100)).toMatchObject({ columns: 0, rows: 0 });
    expect(fitCells({ rows: 1, columns: 1 }, 400, 130)).toMatchObject({ wide: 390, high: 130 });
  }); // prettier-ignore

  test('shows each cell in one place, the largest magnitude, and every NaN', () => {
    const columns = 37;
    const values = Array.from({ length: columns }, (_, at) => (at % 5) - 2);
    const marks = values.map((_, at) => (at === 20 ? MARKS.nan : at === 21 ? MARKS.unwritten : 0));
    values[20] = NaN;
    values[21] = 99;
    const fit = fitCells({ rows: 1, columns }, 10, 10);
    const bins = Array.from({ length: fit.columns }, (_, at) => binAt({ rows: 1, columns, marks }, values, fit, 0, at));
    expect(bins.filter(bin => bin.marks & MARKS.nan)).toHaveLength(1);
    expect(bins.map(bin => Math.abs(bin.value)).every(size => size <= 2)).toBe(true);
    expect(bins.reduce((most, bin) => Math.max(most, Math.abs(bin.value)), 0)).toBe(2);
  });

  test('gathers NaN that lie together', () => {
    const row = Array.from({ length: 20 }, (_, x) => [x, 3, MARKS.nan] as const);
    const patches = patchesOf([...row, [80, 40, MARKS.inf]]);
    expect(patches).toEqual([
      { left: 0, right: 19, top: 3, bottom: 3, nan: 20, inf: 0 },
      { left: 80, right: 80, top: 40, bottom: 40, nan: 0, inf: 1 },
    ]);
  });

  test('marks what a reference has of its own', () => {
    expect([...marksOf([1, NaN, -Infinity, NaN], [MARKS.nan, 0, 0, MARKS.unwritten])]).toEqual([0, MARKS.nan, MARKS.inf, MARKS.unwritten]);
  }); // prettier-ignore
});

describe('numbers', () => {
  test.each([
    [0.10009765625, 4, '0.1001'],
    [448, 3, '448'],
    [1234567, 4, '1.235e6'],
    [57344, 2, '57344'],
    [-0, 4, '−0'],
    [1e-30, 4, '1e−30'],
    [-5.482399, 9, '−5.482399'],
    [NaN, 9, 'NaN'],
    [-Infinity, 9, '−Inf'],
  ])('%d with %d digits is %s', (value, digits, text) => {
    expect(exact(value, { kind: 'float', digits })).toBe(text);
  });

  test('of integers are whole', () => {
    expect(exact(-2147483648, { kind: 'int', digits: 1 })).toBe('−2147483648');
    expect(brief(4294967295, { kind: 'uint', digits: 1 })).toBe('4294967295');
    expect(brief(3.14159, FLOAT)).toBe('3.14');
  });

  test('have bits as wide as their dtype', () => {
    expect(hex(0x3f, 16)).toBe('0x003F');
    expect(hex(5, 4)).toBe('0x5');
  });

  test('have places in the shape of the tile', () => {
    const header = decodeValues(valuesMessage({ rows: [[1]] })).header;
    expect(indices(1, 4 * 30 + 5 * 3 + 2, { ...header, shape: [2, 5, 6, 5], lead: 1 })).toBe('[1, 4, 3, 2]');
    expect(indices(5, 3, { ...header, shape: [2, 3, 4], lead: 2 })).toBe('[1, 2, 3]');
    expect(indices(0, 7, { ...header, shape: [9] })).toBe('[7]');
    expect(indices(3, 9, { ...header, shape: [32, 128], kind: 'packed' })).toBe('[3, 2].1');
  });

  test('count units in the last place of their dtype', () => {
    const header = decodeValues(valuesMessage({ rows: [[1]] })).header;
    const element = { value: 1 + 2 ** -20, reference: 1, bits: null, marks: 0, error: 0 };
    expect(ulps(element, header)).toBe(8);
    expect(ulps({ ...element, reference: 0 }, header)).toBeNull();
    expect(ulps({ ...element, value: NaN }, header)).toBeNull();
  });

  test('say what is special', () => {
    expect(marksText(MARKS.saturated | MARKS.subnormal)).toBe('saturated, subnormal');
    expect(marksText(0)).toBe('');
  });
});
