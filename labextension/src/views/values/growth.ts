/** Where the error grows: the largest relative error by step, and the first instruction over the tolerance. */
import { el, replace, setText, svg } from '../../dom';
import * as format from '../../format';
import type { ErrorGrowth } from '../../types';
import { brief } from './text';

const [WIDTH, HEIGHT] = [240, 92];
const DIGITS = { kind: 'float', digits: 2 };

export interface Growth {
  readonly element: HTMLElement;
  wait(): void;
  show(found: ErrorGrowth | string, steps: number): void;
}

/** `go` selects a step, `ask` has the errors worked out. */
export function createGrowth(go: (step: number) => void, ask: () => void): Growth {
  const button = el('button', { type: 'button', class: 'nki-button', on: { click: ask } }, 'Work out');
  const note = el('span', { class: 'nki-quiet nki-ellipsis' }, 'largest relative error by step');
  const chart = el('div', { class: 'nki-values-chart' });
  const text = el('p', { class: 'nki-values-cause', role: 'status' });
  const element = el(
    'section',
    { class: 'nki-values-growth', 'aria-label': 'Where the error grows' },
    el('div', { class: 'nki-values-head' }, el('h4', {}, 'Where the error grows'), note, button),
    chart,
    text,
  );
  return {
    element,
    wait() {
      button.disabled = true;
      setText(text, 'The program is executed in float64 beside its own arithmetic.');
    },
    show(found, steps) {
      button.disabled = false;
      button.hidden = typeof found !== 'string';
      if (typeof found === 'string') {
        setText(text, found);
        return;
      }
      replace(chart, curve(found, steps));
      const place = el('button', { type: 'button', class: 'nki-link' }, `#${format.ordinal(found.first)}`);
      place.addEventListener('click', () => go(found.first));
      replace(text, ...(found.first < 0 ? [found.text] : ['First over tolerance: ', place, `. ${found.text}`]));
    },
  };
}

/** A staircase on a log scale, with the tolerance as a dashed line. */
function curve({ steps, errors, tolerance, first }: ErrorGrowth, count: number): HTMLElement {
  const known = errors.filter(error => error > 0);
  const most = Math.max(tolerance, ...known, 1e-12);
  const least = Math.min(tolerance > 0 ? tolerance / 10 : most, ...known, most / 100);
  const x = (step: number): number => (count > 1 ? (step / (count - 1)) * WIDTH : 0);
  const span = Math.log10(most * 2) - Math.log10(least);
  const y = (error: number): number =>
    HEIGHT - 2 - (error > least ? (Math.log10(error / least) / span) * (HEIGHT - 6) : 0);
  const path = steps.map((step, at) =>
    at === 0
      ? `M${x(step).toFixed(1)} ${y(errors[at]).toFixed(1)}`
      : `H${x(step).toFixed(1)}V${y(errors[at]).toFixed(1)}`,
  );
  const at = steps.findIndex(step => step >= first);
  const label = `Largest relative error ${brief(Math.max(0, ...errors), DIGITS)}, tolerance ${brief(tolerance, DIGITS)}`;
  const level = y(tolerance).toFixed(1);
  return el(
    'div',
    { class: 'nki-values-histogram' },
    svg(
      'svg',
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
      svg('path', { d: `M0 ${level}H${WIDTH}`, class: 'nki-values-tolerance' }),
      svg('path', { d: path.join(''), class: 'nki-values-line' }),
      ...(first >= 0 && at >= 0
        ? [svg('path', { d: `M${x(first).toFixed(1)} 0V${HEIGHT}`, class: 'nki-values-first' })]
        : []),
    ) as unknown as HTMLElement,
    el(
      'div',
      { class: 'nki-values-bar-ends' },
      el('span', {}, '1'),
      el('span', {}, `dashed: tolerance ${brief(tolerance, DIGITS)} · top ${brief(most, DIGITS)}`),
      el('span', {}, format.count(count)),
    ),
  );
}
