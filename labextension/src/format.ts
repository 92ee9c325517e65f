/** How the page writes numbers. Times are picoseconds, sizes bytes. */

import { DIGITS, LEAST_PERCENT, SIZES, THIN, TIMES, WHOLE_PERCENT } from './_generated/schema';

const MINUS = '\u2212';

export interface Quantity {
  readonly value: string;
  readonly unit: string;
}

/** A time in two parts: whole nanoseconds below one microsecond, else two decimals of the largest unit that fits. */
export function timeParts(picoseconds: number): Quantity {
  const size = Math.abs(picoseconds);
  const nanoseconds = Math.round(size / 1000);
  const found = TIMES.find(item => nanoseconds * 1000 >= item.size);
  const sign = picoseconds < 0 && nanoseconds > 0 ? MINUS : '';
  if (!found) return { value: sign + String(nanoseconds), unit: 'ns' };
  const hundredths = Math.round((size * 100) / found.size);
  const part = String(hundredths % 100).padStart(2, '0');
  return { value: `${sign}${count(Math.floor(hundredths / 100))}.${part}`, unit: found.unit };
}

/** The picoseconds of the unit in which a time is written. */
export function timeUnit(picoseconds: number): number {
  const nanoseconds = Math.round(Math.abs(picoseconds) / 1000);
  return TIMES.find(item => nanoseconds * 1000 >= item.size)?.size ?? 1000;
}

/** "213 ns", "32.88 µs". */
export function time(picoseconds: number): string {
  const { value, unit } = timeParts(picoseconds);
  return `${value} ${unit}`;
}

/** Two times as they stand behind another one, in its unit: ", 118 to 171". */
export function bounds(low: number, high: number, picoseconds: number): string {
  const size = timeUnit(picoseconds);
  return `, ${significant(low / size)} to ${significant(high / size)}`;
}

/** With its sign: "+1.20 µs", "−14 ns". */
export function timeDifference(picoseconds: number): string {
  return Math.round(picoseconds / 1000) > 0 ? `+${time(picoseconds)}` : time(picoseconds);
}

/** To the picosecond, for details and copies: "32 880.125 ns". */
export function timeExact(picoseconds: number): string {
  const size = Math.abs(Math.round(picoseconds));
  const rest = size % 1000;
  const part = rest ? `.${String(rest).padStart(3, '0').replace(/0+$/, '')}` : '';
  return `${picoseconds < 0 ? MINUS : ''}${thousands(String(Math.floor(size / 1000)))}${part} ns`;
}

/** A size: exact where whole, else three significant digits. "512 B", "4.5 KiB". */
export function bytes(count: number): string {
  let power = 0;
  while (Math.abs(count) >= 1024 ** (power + 1) && power + 1 < SIZES.length) power += 1;
  return `${inUnit(count, power)} ${SIZES[power]}`;
}

/** "4.5 of 192 KiB": a part of a whole in the unit of the whole, or in its own where it is less than one of them. */
export function bytesOf(part: number, whole: number): string {
  const of = bytes(whole);
  const power = SIZES.findIndex(unit => of.endsWith(` ${unit}`));
  return part > 0 && part < 1024 ** power ? `${bytes(part)} of ${of}` : `${inUnit(part, power)} of ${of}`;
}

function inUnit(count: number, power: number): string {
  const value = count / 1024 ** power;
  return Number.isInteger(value) ? String(value) : significant(value);
}

/** A rate in decimal units, from bytes and picoseconds: "46 GB/s". */
export function rate(count: number, picoseconds: number): string {
  const perSecond = picoseconds > 0 ? (count / picoseconds) * 1e12 : 0;
  return `${prefixed(perSecond, ['', 'k', 'M', 'G', 'T'])}B/s`;
}

/** A count with thin spaces between thousands. */
export function count(value: number): string {
  return thousands(String(Math.round(value)));
}

/** A count in few characters: "640", "84 k", "9.9 M", "4.4 T". */
export function shortCount(value: number): string {
  if (value < 1000) return String(Math.round(value));
  const larger = ['k', 'M', 'G'].findIndex((_, at) => value < 999.5 * 1000 ** (at + 1));
  const power = larger < 0 ? 4 : larger + 1;
  const scaled = value / 1000 ** power;
  return `${scaled < 9.95 ? scaled.toFixed(1) : String(Math.round(scaled))} ${['', 'k', 'M', 'G', 'T'][power] ?? ''}`;
}

/** "1 instruction", "640 instructions". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A share of 1: whole percent from 10 on, below with one decimal. */
export function percent(share: number): string {
  return `${percentNumber(share)} %`;
}

/** The same without its sign, for lists that name the unit once. */
export function percentNumber(share: number): string {
  const value = 100 * share;
  if (value >= WHOLE_PERCENT) return String(Math.round(value));
  if (value > 0 && value < LEAST_PERCENT) return '< 0.1';
  const text = value.toFixed(1);
  return text === '0.0' ? '0' : text;
}

/** Percentage points: "+1.2", "−0.4". */
export function points(share: number): string {
  const text = Math.abs(100 * share).toFixed(1);
  return text === '0.0' ? text : `${share < 0 ? MINUS : '+'}${text}`;
}

/** "0x13FFF". */
export function address(value: number): string {
  return `0x${value.toString(16).toUpperCase()}`;
}

/** "0–127": both ends are inside. */
export function range(first: number, last: number): string {
  return first === last ? count(first) : `${count(first)}\u2013${count(last)}`;
}

/** "0x10000–0x13FFF": both ends are inside. */
export function addressRange(first: number, size: number): string {
  return size > 1 ? `${address(first)}\u2013${address(first + size - 1)}` : address(first);
}

/** "128 × 512". */
export function shape(sizes: readonly number[]): string {
  return sizes.length ? sizes.map(String).join(' × ') : 'scalar';
}

/** A step, row or instruction as the page counts it, from 1. */
export function ordinal(index: number): string {
  return count(index + 1);
}

/** Three significant digits: "0.0213", "4.53", "1 230". */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Inf' : `${MINUS}Inf`;
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : '';
  if (size >= 10 ** DIGITS - 0.5) return sign + thousands(String(Math.round(size)));
  const [digits, power] = size.toPrecision(DIGITS).split('e') as [string, string?];
  const text = digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits;
  return sign + text + (power === undefined ? '' : `e${power}`);
}

/** The end of a path. */
export function fileName(path: string): string {
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
}

function prefixed(value: number, prefixes: readonly string[]): string {
  let scaled = value;
  let power = 0;
  while (Math.abs(scaled) >= 999.5 && power + 1 < prefixes.length) {
    scaled /= 1000;
    power += 1;
  }
  return `${significant(scaled)} ${prefixes[power] ?? ''}`;
}

function thousands(digits: string): string {
  return digits.length < 4 ? digits : digits.replace(/\B(?=(\d{3})+$)/g, THIN);
}
