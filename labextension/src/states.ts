/** What stands in place of views, or above them: opening, failed, nothing to show, notices. */
import { el, replace, setText } from './dom';
import * as format from './format';
import { icon } from './icons';
import type { Icon } from './icons';
import { toLine } from './lines';
import type { Context } from './types';
import { faultOf } from './views/header';
import { sourceOf } from './views/findings';

export interface Action {
  readonly label: string;
  readonly run: () => void;
}

/** A short title, one sentence, at most two actions. */
export function notice(
  kind: 'information' | 'warning' | 'error',
  title: string,
  text: string,
  actions: readonly Action[] = [],
): HTMLElement {
  const buttons = actions
    .slice(0, 2)
    .map(action => el('button', { type: 'button', class: 'nki-button', on: { click: action.run } }, action.label));
  return el(
    'div',
    { class: `nki-notice nki-notice-${kind}`, role: kind === 'error' ? 'alert' : 'status' },
    icon(kind satisfies Icon, 18),
    el(
      'div',
      { class: 'nki-notice-text' },
      el('h3', {}, title),
      text !== '' && el('p', {}, text),
      buttons.length > 0 && el('div', { class: 'nki-notice-actions' }, ...buttons),
    ),
  );
}

export interface Skeleton {
  readonly element: HTMLElement;
  progress(read: number, total: number): void;
}

/** The layout in grey while a recording is read. */
export function skeleton(words = 'Opening recording'): Skeleton {
  const text = el('div', { class: 'nki-skeleton-text', role: 'status' }, words);
  const grey = (width: string, height = 12): HTMLElement =>
    el('i', { style: { width, height: `${height}px` }, 'aria-hidden': 'true' });
  const lanes = [70, 84, 62, 78, 55].map((busy, row) => {
    const bars = Array.from({ length: 6 }, (_, index) => grey(`${6 + ((busy * (index + 3) * (row + 2)) % 11)}%`));
    return el('div', { class: 'nki-skeleton-lane' }, grey('64px', 8), ...bars);
  });
  const element = el(
    'div',
    { class: 'nki-skeleton' },
    el('div', { class: 'nki-skeleton-head' }, grey('160px', 24), grey('45%', 14)),
    ...lanes,
    text,
  );
  return {
    element,
    progress(read, total) {
      setText(
        text,
        total > 0 ? `Opening recording, ${bytesRead(read, total)}` : `Opening recording, ${format.bytes(read)}`,
      );
    },
  };
}

/** "18 of 61 MiB", without the fractions that flicker. */
function bytesRead(read: number, total: number): string {
  const unit = total >= 1024 ** 2 ? 1024 ** 2 : 1024;
  return `${Math.floor(read / unit)} of ${Math.ceil(total / unit)} ${unit === 1024 ? 'KiB' : 'MiB'}`;
}

/** The fault of a failed run: what, where, and the way to the step before it. */
export function faultBanner(context: Context): HTMLElement | null {
  const { run, store } = context;
  if (run.fault < 0) return null;
  const finding = faultOf(run);
  const site = run.has(run.fault) && !run.faultAfter ? run.siteOf(run.fault) : null;
  const source = finding ? sourceOf(run, finding) : (site?.source ?? -1);
  const line = finding && finding.line > 0 ? finding.line : (site?.line ?? 0);
  const isKnown = run.has(run.fault) && !run.faultAfter;
  const iterations = isKnown
    ? run.iterations(run.fault).map(iteration => `${iteration.loop} = ${iteration.value}`)
    : [];
  const where = el('p', {});
  if (line > 0 && source >= 0) {
    const link = el(
      'button',
      { type: 'button', class: 'nki-link', on: { click: () => toLine(run, store, { source, line }) } },
      `Line ${line}`,
    );
    replace(where, link, iterations.length ? `, ${iterations.join(', ')}` : '');
  }
  if (run.faultAfter)
    where.append(
      where.hasChildNodes() ? ', ' : '',
      `after step ${format.ordinal(run.fault)}, the last instruction issued`,
    );
  if (finding?.help) where.append(where.hasChildNodes() ? ' · ' : '', finding.help);
  if (finding) where.append(' ', el('span', { class: 'nki-code nki-banner-code' }, finding.code));
  const before = el(
    'button',
    { type: 'button', class: 'nki-button', disabled: run.fault < 1, on: { click: () => store.select(run.fault - 1) } },
    'Step before',
  );
  const at = el(
    'button',
    { type: 'button', class: 'nki-button', on: { click: () => store.select(run.fault) } },
    run.faultAfter ? 'Show last instruction' : 'Show fault',
  );
  return el(
    'div',
    { class: 'nki-banner', role: 'alert' },
    icon('error', 18),
    el(
      'div',
      { class: 'nki-banner-text' },
      el(
        'h3',
        {},
        finding?.message ?? `The run failed ${run.faultAfter ? 'after' : 'at'} step ${format.ordinal(run.fault)}`,
      ),
      where,
    ),
    el('div', { class: 'nki-banner-actions' }, at, !run.faultAfter && before),
  );
}
