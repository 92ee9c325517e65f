/** Access patterns as a kernel author writes them: "[:, 1536:2048]". */
import { normal, type Dims } from './pattern';

interface Taken {
  size: number;
  step: number;
  down: boolean;
}

/**
 * The index of each dimension of `shape` that selects what a pattern touches, ":" for a whole one; null where no
 * such index does. Dimensions of step 0 select nothing more.
 */
export function subscript(dims: Dims, offset: number, shape: readonly number[]): string[] | null {
  const pattern = normal(dims, offset);
  if (!pattern.some || shape.some(size => size <= 0)) return null;
  const steps = rowMajor(shape);
  const begins = placeOf(pattern.offset, shape, steps);
  if (begins === null) return null;
  const taken = new Map<number, Taken>();
  const wide = dims.filter(([size, step]) => size > 1 && step !== 0);
  wide.sort((one, other) => Math.abs(other[1]) - Math.abs(one[1]));
  for (const [size, step] of wide) if (!take(taken, size, step, shape, steps, begins)) return null;
  return shape.map((size, axis) => index(taken.get(axis), begins[axis], size));
}

function rowMajor(shape: readonly number[]): number[] {
  const steps = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    steps[axis] = step;
    step *= shape[axis];
  }
  return steps;
}

function placeOf(offset: number, shape: readonly number[], steps: readonly number[]): number[] | null {
  let rest = offset;
  const begins = shape.map((_, axis) => {
    const begin = Math.floor(rest / steps[axis]);
    rest -= begin * steps[axis];
    return begin;
  });
  return begins.every((begin, axis) => begin >= 0 && begin < shape[axis]) && rest === 0 ? begins : null;
}

/** Give a dimension of the pattern to the axis that it steps along, and what is left of it to those outside. */
function take(
  taken: Map<number, Taken>,
  size: number,
  step: number,
  shape: readonly number[],
  steps: readonly number[],
  begins: readonly number[],
): boolean {
  const distance = Math.abs(step);
  const axis = shape.findIndex((length, place) => length > 1 && steps[place] <= distance);
  if (axis < 0 || distance % steps[axis] !== 0) return false;
  const by = distance / steps[axis];
  const room = shape[axis];
  if (begins[axis] + by * (size - 1) < room) return join(taken, axis, { size, step: by, down: step < 0 }, begins, room);
  // It goes on in the next row: whole rows only.
  if (by !== 1 || begins[axis] !== 0 || size % room !== 0 || taken.has(axis)) return false;
  taken.set(axis, { size: room, step: 1, down: step < 0 });
  return take(taken, size / room, Math.sign(step) * room * steps[axis], shape, steps, begins);
}

function join(taken: Map<number, Taken>, axis: number, more: Taken, begins: readonly number[], room: number): boolean {
  const outer = taken.get(axis);
  if (outer === undefined) {
    taken.set(axis, more);
    return true;
  }
  const size = outer.size * more.size;
  if (outer.step !== more.size * more.step || outer.down !== more.down) return false;
  if (begins[axis] + more.step * (size - 1) >= room) return false;
  taken.set(axis, { size, step: more.step, down: more.down });
  return true;
}

function index(taken: Taken | undefined, begin: number, room: number): string {
  if (taken === undefined) return room === 1 ? ':' : String(begin);
  const { size, step, down } = taken;
  const last = begin + step * (size - 1);
  if (down) return `${last}:${begin > 0 ? begin - 1 : ''}:-${step}`;
  if (size === room) return ':';
  return `${begin}:${last + 1}${step > 1 ? `:${step}` : ''}`;
}
