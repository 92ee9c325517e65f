/** Places in sorted numbers. */

/** How many of the first `count` places a condition holds for that holds up to some place and no further. */
export function countWhile(count: number, holds: (place: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first place in ascending values that is at least `value`. */
export function firstFrom(values: ArrayLike<number>, value: number): number {
  return lower(values, values.length, value);
}

/** The place of a value in ascending ones; -1: it is not there. */
export function indexOf(values: ArrayLike<number>, value: number): number {
  const place = firstFrom(values, value);
  return values[place] === value ? place : -1;
}

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
