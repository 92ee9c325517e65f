/** Round times for an axis, in one unit. */

export interface Ticks {
  /** In picoseconds. */
  readonly values: readonly number[];
  /** Named once, beside the axis. */
  readonly unit: Unit;
  /** How many of them neighbouring ticks need to differ. */
  readonly decimals: number;
  /** The number alone, with as many decimals. */
  readonly label: (value: number) => string;
}

export type Unit = 'ps' | 'ns' | 'µs' | 'ms' | 's';

export const PICOSECONDS: Readonly<Record<Unit, number>> = { ps: 1, ns: 1e3, µs: 1e6, ms: 1e9, s: 1e12 };

/** Labels stand at least so far apart, in pixels. */
const APART = 84;

/** The unit in which times of this size have one to three digits before the point. */
export function unitOf(time: number): Unit {
  const size = Math.abs(time);
  if (size < 1e3) return 'ps';
  if (size < 1e6) return 'ns';
  if (size < 1e9) return 'µs';
  return size < 1e12 ? 'ms' : 's';
}

/** Ticks at round times within [from, to] on an axis of `width` pixels. No ticks if there is no such axis. */
export function ticks(from: number, to: number, width: number): Ticks {
  const span = to - from;
  if (!(span > 0) || !(width > 0)) return { values: [], unit: 'ns', decimals: 0, label: String };
  const step = roundUp((span * APART) / width);
  const unit = axisUnit(Math.max(Math.abs(from), Math.abs(to)));
  const size = PICOSECONDS[unit];
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  const values: number[] = [];
  for (let number = Math.ceil(from / step - 1e-9); number * step <= to * (1 + 1e-12); number++) {
    values.push(number * step + 0);
  }
  return { values, unit, decimals, label: value => grouped((value / size).toFixed(decimals)) };
}

/** An axis never counts in picoseconds: parts of a nanosecond have decimals. */
function axisUnit(largest: number): Unit {
  const unit = unitOf(largest);
  return unit === 'ps' ? 'ns' : unit;
}

/** The next of 1, 2, 5 times a power of ten, in whole picoseconds. */
function roundUp(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  const step = [1, 2, 5, 10].find(factor => factor * power >= least * (1 - 1e-9)) ?? 10;
  return step * power;
}

/** Thousands parted by a thin space, a true minus. */
function grouped(number: string): string {
  const [whole = '', part] = number.replace('-', '−').split('.');
  const parted = whole.replace(/\B(?=(\d{3})+(?!\d))/g, '\u2009');
  return part === undefined ? parted : `${parted}.${part}`;
}
