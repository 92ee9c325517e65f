/** Pictures of the expanded view: bytes in HBM, descriptors on engines, efficiency, gathered rows. */
import { el, svg } from '../../dom';
import * as format from '../../format';
import { bytesOf } from './layout';
import type { Picks } from './access';
import type { Gathered, Motion, Operand } from './model';
import { gathered } from './model';
import { outsideText } from './text';
import { runs } from './pattern';

/** Runs that are drawn in the strip of all bytes, and below it. */
const TICKS = 4096;
/** Levels of how much of a pixel is touched. */
const LEVELS = 6;
const CLOSE = 4;
const CURVE = { width: 380, height: 110 };
const CELLS = 8;

/** Where the runs of an operand lie among the bytes of its tensor; null where that is unknown. */
export function bytesFigure(item: Operand, width: number): HTMLElement | null {
  const size = bytesOf(item.view.dtype);
  const all = item.layout.rows * item.layout.columns * size;
  if (!(all > 0) || !item.layout.known || item.indirect !== 'none' || item.elements === 0) return null;
  const found = runs(item.view.dims, item.view.offset, TICKS);
  const strip = svg('svg', { class: 'nki-mo-strip', width, height: 20, 'aria-hidden': 'true', style: hueOf(item) });
  strip.append(svg('rect', { class: 'nki-mo-buffer', x: 0.5, y: 0.5, width: width - 1, height: 19 }));
  strip.append(...covered(found.runs, (size * (width - 1)) / all, Math.floor(width)));
  const more = found.count - found.runs.length;
  return el(
    'div',
    { class: 'nki-mo-figure', style: { width: `${width}px` } },
    el(
      'div',
      { class: 'nki-mo-line' },
      el('span', {}, `${item.buffer.name} as bytes`),
      more > 0 &&
        el(
          'span',
          { class: 'nki-quiet' },
          `first ${format.count(found.runs.length)} of ${format.count(found.count)} runs`,
        ),
      el('span', { class: 'nki-spacer' }),
      el('span', { class: 'nki-quiet' }, format.bytes(all)),
    ),
    strip,
    closeUp(item, found.runs.slice(0, CLOSE), size, width),
  );
}

/** Runs as stretches of pixels, fainter where few bytes of a pixel are touched. */
function covered(all: readonly { start: number; length: number }[], scale: number, width: number): SVGElement[] {
  const share = new Float32Array(width);
  for (const { start, length } of all) {
    const begin = start * scale;
    const end = Math.min((start + length) * scale, width);
    for (let x = Math.floor(begin); x < end && x < width; x += 1) share[x] += Math.min(end, x + 1) - Math.max(begin, x);
  }
  const level = (x: number): number => Math.ceil(Math.min(share[x], 1) * LEVELS - 1e-3);
  const out: SVGElement[] = [];
  for (let x = 0; x < width;) {
    let end = x + 1;
    while (end < width && level(end) === level(x)) end += 1;
    if (share[x] > 0) {
      const strength = Math.max(level(x), 1) / LEVELS;
      const attributes = { class: 'nki-mo-slice', x, y: 0.5, width: end - x, height: 19, 'fill-opacity': strength };
      out.push(svg('rect', attributes));
    }
    x = end;
  }
  return out;
}

function hueOf(item: Operand): string {
  return `--hue: var(--nki-${item.hue})`;
}

/** The first runs with their length and distance. */
function closeUp(
  item: Operand,
  few: readonly { start: number; length: number }[],
  size: number,
  width: number,
): Element | null {
  const [first, second] = few;
  if (first === undefined || second === undefined || second.start - first.start < first.length) return null;
  const last = few[few.length - 1];
  const distance = second.start - first.start;
  const lead = distance * 0.15;
  const scale = (width - 1) / (last.start + distance - first.start + lead);
  const at = (place: number): number => (place - first.start + lead) * scale;
  const out = svg('svg', { class: 'nki-mo-strip', width, height: 56, 'aria-hidden': 'true', style: hueOf(item) });
  out.append(svg('rect', { class: 'nki-mo-buffer', x: 0.5, y: 4.5, width: width - 1, height: 19 }));
  for (const { start, length } of few)
    out.append(
      svg('rect', { class: 'nki-mo-slice', x: at(start), y: 4.5, width: Math.max(length * scale, 2), height: 19 }),
    );
  const bracket = (from: number, to: number): SVGElement =>
    svg('path', { class: 'nki-mo-bracket', d: `M${at(from)} 28v5H${Math.max(at(to), at(from) + 2)}v-5` });
  const label = (x: number, text: string, anchor: string): SVGElement =>
    svg('text', { class: 'nki-mo-axis', x, y: 46, 'text-anchor': anchor }, text);
  out.append(bracket(first.start, first.start + first.length));
  out.append(label(at(first.start), `${format.bytes(first.length * size)} run`, 'start'));
  const third = few[2];
  if (third !== undefined) {
    out.append(bracket(second.start, third.start));
    out.append(
      label(
        (at(second.start) + at(third.start)) / 2,
        `stride ${format.bytes((third.start - second.start) * size)}`,
        'middle',
      ),
    );
  }
  return out;
}

/** Which engines carry descriptors, and how many. */
export function descriptorsFigure({ transfer, machine, hue }: Motion): HTMLElement | null {
  if (!transfer || !machine || machine.dmaEngines <= 0) return null;
  const { engines, descriptors } = transfer;
  const used = new Set(engines);
  const idle = machine.dmaEngines - used.size;
  const each = Math.ceil(descriptors / Math.max(used.size, 1));
  const rows = Math.min(each, CELLS);
  const pitch = 13;
  const grid = svg('svg', {
    class: 'nki-mo-descriptors',
    width: machine.dmaEngines * pitch,
    height: Math.max(rows, 1) * 9,
    'aria-hidden': 'true',
    style: `--hue: var(--nki-${hue})`,
  });
  for (let engine = 0; engine < machine.dmaEngines; engine += 1)
    for (let row = 0; row < Math.max(rows, 1); row += 1)
      grid.append(
        svg('rect', {
          class: used.has(engine) ? 'nki-mo-slice' : 'nki-mo-buffer',
          x: engine * pitch + 0.5,
          y: row * 9 + 0.5,
          width: pitch - 3,
          height: 7,
        }),
      );
  const numbers = el(
    'div',
    { class: 'nki-mo-line nki-quiet', style: { width: `${machine.dmaEngines * pitch}px` } },
    el('span', {}, '0'),
    el('span', { class: 'nki-spacer' }),
    idle > 0 && el('b', { class: 'nki-mo-warn' }, `${idle} of ${machine.dmaEngines} idle`),
    el('span', { class: 'nki-spacer' }),
    el('span', {}, String(machine.dmaEngines - 1)),
  );
  const about = `about ${format.plural(each, 'descriptor')} each${each > rows ? `, ${rows} drawn` : ''}`;
  return el(
    'div',
    { class: 'nki-mo-figure' },
    el('h4', {}, `Descriptors on ${machine.dmaEngines} engines`),
    grid,
    numbers,
    el('p', { class: 'nki-quiet' }, used.size ? about : 'Which engines take part is not recorded.'),
  );
}

/** Efficiency by bytes of a run, with the transfer's own point. */
export function efficiencyFigure({ transfer, machine, hue }: Motion): HTMLElement | null {
  if (!transfer || !machine || transfer.cadence <= 0) return null;
  const { bytes, shares } = machine.dmaEfficiency;
  if (bytes.length < 2) return null;
  const { width, height } = CURVE;
  const low = Math.log2(bytes[0]);
  const high = Math.log2(bytes[bytes.length - 1]);
  const x = (size: number): number =>
    8 + ((width - 16) * (Math.min(Math.max(Math.log2(Math.max(size, 1)), low), high) - low)) / (high - low);
  const y = (share: number): number => 12 + (height - 16) * (1 - Math.min(share, 1));
  const path = bytes.map((size, i) => `${i ? 'L' : 'M'}${x(size).toFixed(1)} ${y(shares[i]).toFixed(1)}`).join('');
  const here = { x: x(transfer.descriptorBytes), y: y(transfer.efficiency) };
  const isLeft = here.x > width / 2;
  const figure = svg(
    'svg',
    {
      class: 'nki-mo-curve',
      viewBox: `0 0 ${width} ${height + 18}`,
      width: '100%',
      'aria-hidden': 'true',
      style: `--hue: var(--nki-${hue})`,
    },
    svg('path', { class: 'nki-mo-base', d: `M8 ${height - 4}H${width - 8}` }),
    svg('path', { class: 'nki-mo-base nki-mo-full', d: `M8 ${y(1)}H${width - 8}` }),
    svg('text', { class: 'nki-mo-axis', x: 8, y: y(1) + 12 }, '100 %'),
    svg('path', { class: 'nki-mo-line-of', d: path }),
    ...bytes
      .filter((_, i) => i % 2 === 0)
      .map(size =>
        svg(
          'text',
          { class: 'nki-mo-axis', x: x(size), y: height + 12, 'text-anchor': anchorOf(size, bytes) },
          format.bytes(size),
        ),
      ),
    svg('circle', { class: 'nki-mo-here', cx: here.x, cy: here.y, r: 4 }),
    svg(
      'text',
      {
        class: 'nki-mo-axis nki-mo-here-text',
        x: here.x + (isLeft ? -9 : 9),
        y: Math.max(here.y + 4, 12),
        'text-anchor': isLeft ? 'end' : 'start',
      },
      `${format.percent(transfer.efficiency)} back to back`,
    ),
  );
  return el(
    'div',
    { class: 'nki-mo-figure' },
    el('h4', {}, 'Back to back: share of an engine’s peak by bytes of a run, a run a partition'),
    figure,
    el('p', {}, efficiencyText(transfer, machine.dmaEngines)),
  );
}

function anchorOf(size: number, all: readonly number[]): string {
  return size === all[0] ? 'start' : size === all[all.length - 1] ? 'end' : 'middle';
}

/**
 * "Such transfers back to back: 42 % of the peak of an engine; 8 of 16 engines carry data, together 21 % of 368 GB/s.
 * This one alone: 184 GB/s while its data move."
 */
export function efficiencyText(transfer: NonNullable<Motion['transfer']>, engines: number): string {
  const peak = format.rate(transfer.peak, 1e12);
  const alone = `This one alone: ${format.rate(transfer.bytes, transfer.duration)} while its data move.`;
  const carry = `${transfer.engines.length} of ${engines} engines carry data`;
  const each = `Such transfers back to back: ${format.percent(transfer.efficiency)} of the peak of an engine`;
  return `${each}; ${carry}, together ${format.percent(transfer.share)} of ${peak}. ${alone}`;
}

/** Rows that an index tensor selects; the reason why that is unknown, where it is. */
export function gatherFigure(item: Operand): HTMLElement | null {
  const { index } = item;
  if (index === null || item.indirect !== 'vector') return null;
  const isWritten = item.role !== 'read';
  const title = el('h4', {}, `Rows ${isWritten ? 'written' : 'read'} by ${index.name}`);
  const { picks } = index;
  if (picks === null)
    return el('div', { class: 'nki-mo-figure' }, title, el('p', { class: 'nki-quiet' }, sentence(index.reason)));
  const found = gathered(picks);
  const said = [
    format.plural(found.distinct, 'distinct row'),
    found.repeated > 0 ? `${format.count(found.repeated)} ${isWritten ? 'written' : 'read'} more than once` : '',
    outsideText(item),
  ].filter(text => text !== '');
  const few = found.rows.length < found.count;
  const drawn = few
    ? ` Indices ${format.ordinal(found.rows[0].place)} to ${format.ordinal(found.rows[found.rows.length - 1].place)} of ${format.count(found.count)} drawn.`
    : '';
  return el(
    'div',
    { class: 'nki-mo-figure' },
    title,
    picksFigure(item, picks, found),
    el('p', { class: found.outside > 0 ? 'nki-mo-outside-text' : '' }, `${said.join(', ')}.${drawn}`),
  );
}

/** Indices on the left, the tensor that has the rows, and the rows of the other side. */
function picksFigure(item: Operand, picks: Picks, { rows }: Gathered): SVGSVGElement {
  const step = 18;
  const height = Math.max(rows.length * step, step);
  const all = Math.max(item.layout.rows, 1);
  const figure = svg('svg', {
    class: 'nki-mo-gather',
    viewBox: `0 0 380 ${height}`,
    width: '100%',
    'aria-hidden': 'true',
    style: hueOf(item),
  });
  figure.append(svg('rect', { class: 'nki-mo-buffer', x: 190.5, y: 0.5, width: 90, height: height - 1 }));
  rows.forEach(({ row, inside }, i) => {
    const y = i * step + step / 2;
    const look = inside ? 'nki-mo-axis' : 'nki-mo-axis nki-mo-wrong';
    figure.append(svg('text', { class: look, x: 60, y: y + 4, 'text-anchor': 'end' }, String(row)));
    if (inside) {
      const at = Math.floor((item.view.offset + row * picks.stride) / item.layout.columns);
      const to = 1 + ((at + 0.5) / all) * (height - 2);
      figure.append(svg('path', { class: 'nki-mo-pick', d: `M66 ${y}C128 ${y} 128 ${to} 190 ${to}` }));
      figure.append(svg('path', { class: 'nki-mo-pick', d: `M190 ${to}H281C312 ${to} 312 ${y} 340 ${y}` }));
    } else {
      figure.append(svg('path', { class: 'nki-mo-pick nki-mo-outside', d: `M66 ${y}H180` }));
      figure.append(svg('path', { class: 'nki-mo-outside', d: `M176 ${y - 4}l8 8m0 -8l-8 8` }));
    }
    figure.append(
      svg('rect', { class: inside ? 'nki-mo-slice' : 'nki-mo-lost', x: 341, y: y - 7, width: 36, height: 14 }),
    );
  });
  return figure;
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}
