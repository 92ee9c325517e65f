/** Amounts of two runs, as the tables write them. */
import type { Change } from '../../_generated/schema';
import * as format from '../../format';

export function amount(value: number | null, unit: string): string {
  if (value === null) return '–';
  if (unit === 'ps') return format.time(value);
  if (unit === 'bytes') return format.bytes(Math.round(value));
  return unit === 'share' ? format.percent(value) : format.count(value);
}

export function difference({ before, after }: Change): number | null {
  return before === null || after === null ? null : after - before;
}

/** A change with its sign: "−3.32 µs", "+1.2" points of a share; "0" for none. */
export function change(item: Change): string {
  const value = difference(item);
  if (value === null) return '–';
  if (item.unit === 'share') return format.points(value).replace(/^0\.0$/, '0');
  const text = amount(Math.abs(value), item.unit);
  return /^0(\s|$)/.test(text) ? '0' : `${value < 0 ? '−' : '+'}${text}`;
}

/** A part with its sign in percent: "−14 %"; one that is hardly any has none. */
export function signedPercent(share: number): string {
  const text = format.percent(Math.abs(share));
  return /^[0<]\s/.test(text) ? text : `${share < 0 ? '−' : '+'}${text}`;
}

export const WITHIN = 'within the error of the prediction';

/** Less is better of all that is compared in time; only of these a change has a colour. */
export function tone(item: Change, isTotal = false): 'less' | 'more' | '' {
  const value = difference(item);
  if (value === null || item.unit !== 'ps' || Math.round(value / 1000) === 0) return '';
  return value < 0 ? 'less' : isTotal ? 'more' : '';
}
