/** Places in sorted numbers. */

/** How many of the first `count` values are at most `value`. */
export function upper(values: ArrayLike<number>, count: number, value: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many of the first `count` values are less than `value`. */
export function lower(values: ArrayLike<number>, count: number, value: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** `upper`, known to be at least `from`: quick where the answer is near. */
export function upperFrom(values: ArrayLike<number>, count: number, from: number, value: number): number {
  let low = from;
  let step = 1;
  while (low + step <= count && values[low + step - 1] <= value) {
    low += step;
    step *= 2;
  }
  let high = Math.min(count, low + step - 1);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
