/** A column that gets longer. */

type Kind = Uint8Array | Uint32Array | Int32Array | Float64Array;

export class Growing<T extends Kind> {
  length = 0;
  values: T;

  constructor(
    private readonly make: (length: number) => T,
    capacity = 16,
  ) {
    this.values = make(capacity);
  }

  push(value: number): void {
    if (this.length === this.values.length) this.reserve(this.length + 1);
    this.values[this.length++] = value;
  }

  /** Room for `length` values. */
  reserve(length: number): void {
    if (length <= this.values.length) return;
    const values = this.make(Math.max(length, 2 * this.values.length));
    values.set(this.values.subarray(0, this.length));
    this.values = values;
  }

  append(values: ArrayLike<number>): void {
    this.reserve(this.length + values.length);
    this.values.set(values, this.length);
    this.length += values.length;
  }

  /** Put a value before place `at`. */
  insert(at: number, value: number): void {
    this.push(value);
    this.values.copyWithin(at + 1, at, this.length - 1);
    this.values[at] = value;
  }

  /** The values so far; a view that later ones do not change. */
  view(): T {
    return this.values.subarray(0, this.length) as T;
  }
}

export const floats = (capacity?: number): Growing<Float64Array> => new Growing(n => new Float64Array(n), capacity);
export const counts = (capacity?: number): Growing<Uint32Array> => new Growing(n => new Uint32Array(n), capacity);
export const integers = (capacity?: number): Growing<Int32Array> => new Growing(n => new Int32Array(n), capacity);
export const bytes = (capacity?: number): Growing<Uint8Array> => new Growing(n => new Uint8Array(n), capacity);
