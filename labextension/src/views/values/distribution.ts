/** How the values of a tile are spread, and what is counted of them. */
import { MARKS } from '../../_generated/schema';
import { el, replace, svg } from '../../dom';
import * as format from '../../format';
import type { TileValues } from '../../tile_values';
import { brief, MARK_LABELS } from './text';

const [WIDTH, HEIGHT] = [240, 92];

export interface Distribution {
  readonly element: HTMLElement;
  show(tile: TileValues): void;
}

/** `find` goes to the next element with a mark. */
export function createDistribution(find: (mark: number) => void): Distribution {
  const note = el('span', { class: 'nki-quiet' });
  const chart = el('div', { class: 'nki-values-chart' });
  const figures = el('dl', { class: 'nki-values-figures' });
  const element = el(
    'section',
    { class: 'nki-values-distribution', 'aria-label': 'Distribution' },
    el('div', { class: 'nki-values-head' }, el('h4', {}, 'Distribution'), note),
    chart,
    figures,
  );
  return {
    element,
    show(tile) {
      const { header } = tile;
      note.textContent = tile.referenceHistogram ? 'count, log scale · line: reference' : 'count, log scale';
      replace(chart, tile.histogram ? bars(tile) : el('p', { class: 'nki-quiet' }, 'No finite element.'));
      const number = (name: string, value: number | undefined): HTMLElement =>
        el(
          'div',
          {},
          el('dt', {}, name),
          el('dd', {}, value === undefined ? '–' : brief(value, { kind: 'float', digits: 4 })),
        );
      const counted = (Object.keys(MARKS) as (keyof typeof MARKS)[])
        .filter(name => name !== 'subnormal' || header.smallest > 0)
        .map(name => count(name, header.counts[name], () => find(MARKS[name])));
      const zero = el('div', {}, el('dt', {}, 'zero'), el('dd', {}, format.count(header.counts.zero)));
      replace(
        figures,
        number('min', header.low),
        number('max', header.high),
        number('mean', header.mean),
        number('std', header.std),
        ...counted,
        zero,
        !header.written_known &&
          el('p', { class: 'nki-quiet' }, 'Which elements were written is not known of this tile.'),
      );
    },
  };
}

/** A count; where it is not zero, a way to the next such element. */
function count(name: keyof typeof MARKS, value: number, find: () => void): HTMLElement {
  const label = MARK_LABELS[name];
  const isBad = value > 0 && (name === 'nan' || name === 'inf');
  const text = format.count(value);
  const shown =
    value > 0
      ? el(
          'button',
          { type: 'button', class: 'nki-link', 'aria-label': `${text} ${label}: next`, on: { click: find } },
          text,
        )
      : text;
  return el('div', { class: isBad ? 'nki-over' : '' }, el('dt', {}, label), el('dd', {}, shown));
}

function bars({ histogram, referenceHistogram, header }: TileValues): HTMLElement {
  const counts = [...histogram!];
  const top = Math.log10(Math.max(10, ...counts, ...(referenceHistogram ?? [])));
  const high = (value: number): number =>
    value > 0 ? Math.max(1.5, ((Math.log10(value) + 0.08) / (top + 0.08)) * HEIGHT) : 0;
  const wide = WIDTH / counts.length;
  const lines = Array.from({ length: Math.floor(top) }, (_, power) => {
    const y = HEIGHT - high(10 ** (power + 1));
    return svg('path', { d: `M0 ${y.toFixed(1)}H${WIDTH}`, class: 'nki-values-rule' });
  });
  const drawn = counts.map((value, at) =>
    svg('rect', { x: at * wide + 0.3, width: wide - 0.6, y: HEIGHT - high(value), height: high(value) }),
  );
  const points = referenceHistogram
    ? [...referenceHistogram].map(
        (value, at) => `${((at + 0.5) * wide).toFixed(1)},${(HEIGHT - high(value)).toFixed(1)}`,
      )
    : [];
  const digits = { kind: 'float', digits: 3 };
  const [low, top10] = [header.low ?? 0, header.high ?? 0];
  const label = `Histogram from ${brief(low, digits)} to ${brief(top10, digits)}, largest count ${format.count(Math.max(...counts))}`;
  return el(
    'div',
    { class: 'nki-values-histogram' },
    svg(
      'svg',
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
      ...lines,
      svg('g', { class: 'nki-values-bars' }, ...drawn),
      ...(points.length ? [svg('polyline', { points: points.join(' '), class: 'nki-values-line' })] : []),
    ) as unknown as HTMLElement,
    el(
      'div',
      { class: 'nki-values-bar-ends' },
      el('span', {}, brief(low, digits)),
      el('span', {}, brief((low + top10) / 2, digits)),
      el('span', {}, brief(top10, digits)),
    ),
  );
}
