/** The largest of a range of many values, with the largest of each block known beforehand. */

import type { Numbers } from '../wire';

/** Values of which one extreme is kept. */
export const BLOCK = 64;

export function blockMaxima(values: Numbers): Float64Array {
  const out = new Float64Array(Math.ceil(values.length / BLOCK)).fill(-Infinity);
  for (let i = 0; i < values.length; i++) {
    const block = Math.floor(i / BLOCK);
    if (values[i] > out[block]) out[block] = values[i]!;
  }
  return out;
}

/** The largest of the values from place `low` to before `high`. */
export function largest(values: Numbers, blocks: Float64Array, low: number, high: number): number {
  let most = 0;
  for (let i = low; i < high; i++) {
    if (i % BLOCK === 0 && i + BLOCK <= high) {
      most = Math.max(most, blocks[i / BLOCK]);
      i += BLOCK - 1;
    } else most = Math.max(most, values[i]);
  }
  return most;
}
