/** What is known of a run before it has a recording: how busy its lanes and how full its memories are, so far. */
import { HUES, HUE_LABELS } from './_generated/schema';
import { el, replace, setAttribute, setText, svg } from './dom';
import * as format from './format';
import { swatch } from './swatch';
import type { Hue } from './types';

/** Means in `count` bins of equal width, as nki_lab/timeline/growth.py has them: a row of bytes for each name. */
export interface Curves {
  readonly over: 'program' | 'time';
  readonly names: readonly string[];
  /** Instructions in program order, or picoseconds. */
  readonly until: number;
  /** Where the last of all bins ends, those included in which nothing is yet. */
  readonly end: number;
  readonly count: number;
  readonly shares: ArrayBuffer | ArrayBufferView;
}

export interface Growth {
  readonly lanes: Curves;
  readonly memories: Curves | null;
}

export interface Growing {
  readonly element: HTMLElement;
  draw(growth: Growth): void;
}

const FULL = 255;

/** The drawing of a run that grows. */
export function createGrowing(): Growing {
  const lanes = createPart('Timeline');
  const memories = createPart('Memory');
  const element = el('div', { class: 'nki-growing' }, lanes.element, memories.element);
  return {
    element,
    draw(growth) {
      lanes.draw(growth.lanes, laneWords(growth.lanes));
      memories.element.hidden = growth.memories === null || growth.memories.names.length === 0;
      if (growth.memories) memories.draw(growth.memories, memoryWords(growth.memories));
    },
  };
}

/** What a kernel says of a run so far; null where it is nothing. */
export function growthOf(told: unknown): Growth | null {
  const found = told as Partial<Growth> | null | undefined;
  return found?.lanes === undefined ? null : (found as Growth);
}

interface Words {
  /** How far it is. */
  readonly until: string;
  /** What the heights are. */
  readonly heights: string;
}

function laneWords({ over, until }: Curves): Words {
  return over === 'time'
    ? {
        until: `timed until ${format.time(until)}`,
        heights: 'share of the time in which it is busy, of DMA the mean of its queues',
      }
    : { until: `program order so far, ${instructions(until)}`, heights: 'share of the instructions' };
}

function memoryWords({ until }: Curves): Words {
  return { until: `program order so far, ${instructions(until)}`, heights: 'share of a partition in use' };
}

function instructions(count: number): string {
  return `${format.shortCount(count)} ${count === 1 ? 'instruction' : 'instructions'}`;
}

interface Part {
  readonly element: HTMLElement;
  draw(curves: Curves, words: Words): void;
}

function createPart(title: string): Part {
  const until = el('span', { class: 'nki-growing-until' });
  const heights = el('span', { class: 'nki-quiet' });
  const list = el('div', { class: 'nki-growing-rows', role: 'list' });
  const rows = new Map<string, Row>();
  const element = el(
    'section',
    { class: 'nki-panel', role: 'region', 'aria-label': `${title} so far` },
    el('div', { class: 'nki-panel-head' }, el('h3', {}, title), until, el('span', { class: 'nki-spacer' }), heights),
    list,
  );
  return {
    element,
    draw(curves, words) {
      setText(until, words.until);
      setText(heights, words.heights);
      const bytes = bytesOf(curves.shares);
      const shown = curves.names.map((name, number) => {
        const row = rows.get(name) ?? createRow(name);
        rows.set(name, row);
        row.draw(curves, bytes.subarray(number * curves.count, (number + 1) * curves.count));
        return row.element;
      });
      if (shown.length !== list.children.length || shown.some((row, at) => row !== list.children[at]))
        replace(list, ...shown);
    },
  };
}

interface Row {
  readonly element: HTMLElement;
  draw(curves: Curves, shares: Uint8Array): void;
}

/** A lane, whose figure is the mean so far, or a memory, whose figure is the most. */
function createRow(name: string): Row {
  const isLane = isHue(name);
  const share = el('span', { class: 'nki-growing-share' });
  const known = svg('rect', { class: 'nki-growing-known', y: 0, height: FULL });
  const heights = svg('path', { class: 'nki-growing-heights' });
  if (isLane) heights.style.fill = `var(--nki-${name})`;
  const drawing = svg(
    'svg',
    { class: 'nki-growing-drawing', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    known,
    heights,
  );
  const element = el(
    'div',
    { class: isLane ? 'nki-growing-row' : 'nki-growing-row nki-growing-memory', role: 'listitem' },
    el(
      'div',
      { class: 'nki-growing-gutter' },
      isLane && swatch(name),
      el('span', { class: 'nki-ellipsis' }, isLane ? HUE_LABELS[name] : name.toUpperCase()),
      el('span', { class: 'nki-spacer' }),
      share,
    ),
    drawing,
  );
  return {
    element,
    draw(curves, shares) {
      const reached = (curves.until / curves.end) * FULL;
      setAttribute(drawing, 'viewBox', `0 0 ${FULL} ${FULL}`);
      setAttribute(known, 'width', reached);
      setAttribute(heights, 'd', outline(shares, reached));
      const found = isLane ? mean(shares) : Math.max(0, ...shares);
      setText(share, `${isLane ? '' : 'up to '}${format.percent(found / FULL)}`);
    },
  };
}

/** The outline of bars side by side up to `reached`, from the ground up. */
export function outline(shares: Uint8Array, reached: number): string {
  const width = reached / Math.max(1, shares.length);
  let path = `M0 ${FULL}`;
  for (const [at, share] of shares.entries()) {
    if (share !== shares[at - 1]) path += `V${FULL - share}`;
    if (share !== shares[at + 1]) path += `H${round((at + 1) * width)}`;
  }
  return `${path}V${FULL}Z`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

function mean(shares: Uint8Array): number {
  let sum = 0;
  for (const share of shares) sum += share;
  return shares.length ? sum / shares.length : 0;
}

function isHue(name: string): name is Hue {
  return (HUES as readonly string[]).includes(name);
}

function bytesOf(shares: ArrayBuffer | ArrayBufferView): Uint8Array {
  return ArrayBuffer.isView(shares)
    ? new Uint8Array(shares.buffer, shares.byteOffset, shares.byteLength)
    : new Uint8Array(shares);
}
