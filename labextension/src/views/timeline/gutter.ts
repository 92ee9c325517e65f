/** The left column: what each row is, and its share of the visible window. */
import { DEFINITIONS, FIGURE_LABELS, HUE_LABELS, MEMORY_LABELS } from '../../_generated/schema';
import { el, setAttribute, setStyle, setText } from '../../dom';
import { icon } from '../../icons';
import * as format from '../../format';
import type { Run } from '../../types';
import { ticks, type Unit } from '../../canvas/scale';
import { share } from './columns';
import type { Figure } from './figure';
import { hbmBytes, makingTime } from './flows';
import { loopsTitle, loopsWord, mainLoop } from './loop_card';
import { rankWords } from './rank_rows';
import {
  type CounterStrip,
  type DmaStrip,
  foldOf,
  type FlowStrip,
  type FoldStrip,
  type LaneStrip,
  type Layout,
  type Strip,
} from './strips';

interface Cell {
  readonly element: HTMLElement;
  readonly name: HTMLElement;
  readonly value: HTMLElement;
  /** The second line, where there is one. */
  readonly note: HTMLElement;
}

export interface Gutter {
  readonly element: HTMLElement;
  /** Other rows than before. */
  arrange(layout: Layout, run: Run): void;
  /** Other numbers in them. */
  fill(figure: Figure): void;
}

export function createGutter(fold: (strip: FoldStrip) => void): Gutter {
  const element = el('div', { class: 'nki-tl-gutter' });
  const cells = new Map<Strip, Cell>();
  return {
    element,
    arrange(layout, run) {
      const focused = element.querySelector(':focus')?.getAttribute('data-fold') ?? null;
      cells.clear();
      element.replaceChildren();
      for (const strip of layout.strips) {
        const cell = createCell(strip, run, fold);
        cells.set(strip, cell);
        element.append(cell.element);
      }
      if (focused !== null) element.querySelector<HTMLElement>(`[data-fold="${focused}"]`)?.focus();
    },
    fill(figure) {
      for (const [strip, cell] of cells) fillCell(strip, cell, figure);
    },
  };
}

/** The button that folds a group of lanes or the rows of loops. */
function foldButton(strip: FoldStrip, run: Run, fold: (strip: FoldStrip) => void): HTMLElement {
  const button = el(
    'button',
    {
      type: 'button',
      class: `nki-tl-fold${strip.folded ? ' nki-tl-folded' : ''}`,
      'aria-expanded': String(!strip.folded),
      'aria-label':
        strip.kind === 'rank'
          ? `Lanes of rank ${strip.rank}`
          : `Iterations of ${loopsWord(strip)}${placeOf(strip, run)}`,
      'data-fold': foldOf(strip),
    },
    icon('down', 11),
  );
  button.addEventListener('click', () => fold(strip));
  return button;
}

function placeOf(strip: FoldStrip, run: Run): string {
  const place = strip.kind === 'loop' ? run.coreName(strip.core) : '';
  return place === '' ? '' : `, ${place}`;
}

function createCell(strip: Strip, run: Run, fold: (strip: FoldStrip) => void): Cell {
  const swatch = strip.kind === 'lane' ? strip.lane.hue : strip.kind === 'dma' ? 'dma' : null;
  const name = el('span', { class: 'nki-tl-name', title: titleOf(strip, run) }, nameOf(strip, run));
  const value = el('span', { class: 'nki-tl-share' });
  const note = el('span', { class: 'nki-tl-note' });
  const look = { height: `${strip.height}px`, top: `${strip.top}px` };
  const square = swatch && el('i', { class: 'nki-tl-swatch', style: { background: `var(--nki-${swatch})` } });
  const folds = strip.kind === 'rank' || strip.kind === 'loop';
  const button = folds ? foldButton(strip, run, fold) : null;
  const first = el('span', { class: 'nki-tl-first' }, button, square, name, value);
  const hidden = folds ? {} : { 'aria-hidden': 'true' };
  const element = el(
    'div',
    { class: `nki-tl-cell nki-tl-cell-${strip.kind}`, ...hidden, style: look },
    first,
    folds ? null : note,
  );
  if (strip.kind === 'loop') setStyle(first, { 'padding-left': `${8 * strip.depth}px` });
  return { element, name, value, note };
}

const COUNTERS = { ...MEMORY_LABELS, rate: `${HUE_LABELS.dma} rate` };

const FLOWS = {
  hbm: {
    name: MEMORY_LABELS.hbm,
    told:
      'Bytes per second that transfers read from HBM and write there; the dashed line is what ' +
      `${FIGURE_LABELS.mbu} is a share of. Each transfer counts evenly over its time, though it is slower while it ` +
      'shares: where some overlap the curve may pass the line',
  },
  descriptors: {
    name: 'Descriptors',
    told: 'Share of the time in which DMA descriptors are made: at 100 % more queues make nothing faster',
  },
} as const;

function flowNote(strip: FlowStrip, figure: Figure): string {
  if (!figure.flows.has(strip)) return '';
  const { from, to } = figure.scale;
  const begin = Math.max(0, from);
  const end = Math.min(figure.run.makespan, to);
  // Not the highest point: where transfers overlap, the even curve passes what was there at any time.
  if (strip.flow === 'hbm')
    return end > begin ? `mean ${format.rate(hbmBytes(figure.run, begin, end), end - begin)}` : '';
  const time = makingTime(figure.run, strip.core, begin, end);
  return `${format.percent(share(figure.run, time, figure.scale))} busy`;
}

function nameOf(strip: Strip, run: Run): string {
  switch (strip.kind) {
    case 'axis':
      return '';
    case 'path':
      return 'Critical path';
    case 'rank':
      return `Rank ${strip.rank}`;
    case 'loop':
      return loopsWord(strip);
    case 'core':
      return (run.coreName(strip.core).split(', ').at(-1) ?? '').replace('core', 'Core');
    case 'lane':
      return strip.lane.label.replace(/, (rank|core) \d+.*$/, '');
    case 'dma':
      return HUE_LABELS.dma;
    case 'counter':
      return COUNTERS[strip.counter];
    case 'flow':
      return FLOWS[strip.flow].name;
  }
}

function titleOf(strip: Strip, run: Run): string | null {
  switch (strip.kind) {
    case 'lane':
      return `${strip.lane.label}: ${format.plural(run.laneTimes[strip.lane.id]?.rows ?? 0, 'instruction')}`;
    case 'dma':
      return strip.lanes.map(lane => lane.label).join('\n');
    case 'counter':
      return strip.counter === 'rate'
        ? 'Bytes per second of all DMA queues'
        : 'Live bytes in the fullest partition; max: of this window';
    case 'flow':
      return FLOWS[strip.flow].told;
    case 'rank':
      return rankWords(run, strip.rank);
    case 'loop':
      return loopsTitle(strip, run);
    case 'axis':
    case 'path':
    case 'core':
      return null;
  }
}

function fillCell(strip: Strip, cell: Cell, figure: Figure): void {
  switch (strip.kind) {
    case 'axis': {
      setText(cell.value, unitShown(figure));
      return;
    }
    case 'lane': {
      fillLane(strip, cell, figure);
      return;
    }
    case 'dma': {
      fillDma(strip, cell, figure);
      return;
    }
    case 'counter': {
      setText(cell.note, counterNote(strip, figure));
      return;
    }
    case 'flow': {
      setText(cell.note, flowNote(strip, figure));
      return;
    }
    case 'rank': {
      const { run } = figure;
      setText(cell.value, run.slowest === strip.rank ? 'slowest' : '');
      setAttribute(cell.value, 'title', run.slowest === strip.rank ? DEFINITIONS.slowest : null);
      return;
    }
    case 'loop': {
      const loop = mainLoop(strip);
      setText(cell.value, loop === null ? '' : format.time(loop.interval));
      setAttribute(cell.value, 'title', `${FIGURE_LABELS.initiation}: ${DEFINITIONS.initiation}`);
      return;
    }
    case 'path':
    case 'core':
  }
}

function unitShown({ scale }: Figure): Unit {
  return ticks(scale.from, scale.to, scale.width).unit;
}

function fillLane(strip: LaneStrip, cell: Cell, figure: Figure): void {
  const found = figure.lanes.get(strip);
  if (found === undefined) return;
  setShare(cell.value, found.busy, found.columns?.count ?? -1);
}

/** The share of the window; where bars give way to columns, its title tells how many instructions there are. */
function setShare(element: HTMLElement, busy: number, count: number): void {
  setText(element, format.percent(busy));
  const more = count < 0 ? '' : `, ${format.plural(count, 'instruction')}`;
  setAttribute(element, 'title', `${format.percent(busy)} busy in this window${more}. ${DEFINITIONS.busy}`);
}

function fillDma(strip: DmaStrip, cell: Cell, figure: Figure): void {
  const found = figure.dma.get(strip);
  if (found === undefined) return;
  setShare(cell.value, found.busy, found.columns?.count ?? -1);
  if (strip.pitch === 0) return;
  const hidden = found.hidden.length > 0 ? `\n+ ${format.shortCount(found.hidden.length)} here` : '';
  setText(cell.note, `${strip.lanes.length} queues${hidden}`);
  const told = `${format.plural(found.hidden.length, 'transfer')} without room above: more than ${strip.tracks.length} at once`;
  setAttribute(cell.note, 'title', found.hidden.length > 0 ? told : null);
}

function counterNote(strip: CounterStrip, figure: Figure): string {
  const curve = figure.curves.get(strip);
  if (curve === undefined) return '';
  return `max ${strip.counter === 'rate' ? format.rate(curve.most, 1e12) : format.bytes(curve.most)}`;
}
