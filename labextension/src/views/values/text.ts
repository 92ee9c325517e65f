/** How numbers of a dtype are written: with the digits that it has, and no more. */
import { MARKS, type ValuesHeader } from '../../_generated/schema';
import type { Element } from '../../tile_values';

const MINUS = '\u2212';
/** Digits in a cell of the grid. */
const FEW = 3;

type Kind = Pick<ValuesHeader, 'kind' | 'digits'>;

/** A number with all digits that tell it from its neighbours: "−5.482399". */
export function exact(value: number, header: Kind): string {
  return written(value, header, header.digits);
}

/** The same in few characters, for cells and axes. */
export function brief(value: number, header: Kind): string {
  return written(value, header, Math.min(FEW, header.digits));
}

function written(value: number, { kind }: Kind, digits: number): string {
  if (Number.isNaN(value)) return 'NaN';
  const sign = value < 0 || Object.is(value, -0) ? MINUS : '';
  const size = Math.abs(value);
  if (size === Infinity) return `${sign}Inf`;
  if (size === 0) return `${sign}0`;
  if (kind !== 'float' && kind !== 'packed') return sign + String(size);
  if (size >= 1e-3 && size < 10 ** Math.max(digits, 5)) {
    const text = size.toPrecision(Math.max(digits, Math.floor(Math.log10(size)) + 1));
    return sign + (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  }
  const [mantissa = '', power = ''] = size.toExponential(digits - 1).split('e');
  const short = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa;
  return `${sign}${short}e${power.replace('+', '').replace('-', MINUS)}`;
}

/** "0xC0AF6FD0", as wide as the dtype. */
export function hex(bits: number, width: number): string {
  return `0x${bits
    .toString(16)
    .toUpperCase()
    .padStart(Math.ceil(width / 4), '0')}`;
}

/** The difference to a reference in units in the last place of the value's dtype; null where there is none. */
export function ulps({ value, reference }: Element, { kind, mantissa }: ValuesHeader): number | null {
  if (reference === null || (kind !== 'float' && kind !== 'packed') || !Number.isFinite(value - reference)) return null;
  const size = Math.abs(reference);
  if (size === 0) return null;
  return Math.round(Math.abs(value - reference) / 2 ** (Math.floor(Math.log2(size)) - mantissa));
}

export const MARK_LABELS: Readonly<Record<keyof typeof MARKS, string>> = {
  nan: 'NaN',
  inf: 'Inf',
  saturated: 'saturated',
  subnormal: 'subnormal',
  unwritten: 'never written',
};

/** What is special about an element: "saturated"; '' for an ordinary one. */
export function marksText(marks: number): string {
  return (Object.keys(MARKS) as (keyof typeof MARKS)[])
    .filter(name => marks & MARKS[name])
    .map(name => MARK_LABELS[name])
    .join(', ');
}

/** Numbers in a packed element. */
const PACKED = 4;

/** The indices of an element in the tile's own shape: "[42, 3, 0, 7]"; of a packed one with its place in it, "[4, 2].1". */
export function indices(row: number, column: number, { shape, lead, kind }: ValuesHeader): string {
  const isPacked = kind === 'packed';
  const free = isPacked ? Math.floor(column / PACKED) : column;
  const cut = shape.length < 2 ? 0 : lead;
  const own = [...placeIn(shape.slice(0, cut), row), ...placeIn(shape.slice(cut), free)].join(', ');
  return isPacked ? `[${own}].${column % PACKED}` : `[${own}]`;
}

/** The index in each dimension of an element that is the n-th. */
function placeIn(sizes: readonly number[], n: number): number[] {
  let rest = n;
  return sizes
    .map((_, at) => sizes.slice(at + 1).reduce((product, size) => product * size, 1))
    .map(step => {
      const index = step > 0 ? Math.floor(rest / step) : 0;
      rest -= index * step;
      return index;
    });
}
