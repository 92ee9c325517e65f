/** Operands, engine and result of an instruction from left to right, joined by arrows. */
import { HUE_LABELS, MEMORY_LABELS } from '../../_generated/schema';
import { el, svg } from '../../dom';
import * as format from '../../format';
import { icon } from '../../icons';
import type { Context } from '../../types';
import type { Motion, Operand } from './model';
import { banksOf } from './model';
import { accumulationText, describe, indirection, named, outsideText, partitions, pattern, unused } from './text';
import { shadeOf, tile, type Tile } from './tile';

export interface FlowOptions {
  readonly width: number;
  readonly tileHeight: number;
  /** Operands on a side; more are counted. */
  readonly most: number;
  readonly axes: boolean;
  readonly more: () => void;
}

export interface Flow {
  readonly element: HTMLElement;
  fill(share: number): void;
  /** Data are under way: arrows move where motion is wanted. */
  move(isMoving: boolean): void;
}

const HEAD = 20;
const NAME = 24;
/** Two lines of text, and one of buttons. */
const CAPTION = 2 + 2 * 13 + 24;
const PAD = 12;

interface Column {
  readonly x: number;
  readonly width: number;
}

interface Placed {
  readonly item: Operand;
  readonly tile: Tile;
  readonly column: Column;
  readonly top: number;
  /** Where arrows end and begin. */
  readonly y: number;
  readonly right: number;
}

/** Draw a motion in `width` pixels. */
export function createFlow(context: Context, motion: Motion, options: FlowOptions): Flow {
  const inputs = motion.inputs.slice(0, options.most);
  const outputs = motion.outputs.slice(0, options.most);
  const origins = inputs.map(item => item.origin);
  const hasOrigins = origins.some(item => item !== null);
  const isTransfer = motion.transfer !== null || motion.hue === 'dma';
  const columns = columnsOf(options.width - 2 * PAD, hasOrigins, isTransfer);
  const row = NAME + options.tileHeight + CAPTION;
  const count = Math.max(inputs.length, outputs.length, 1);
  const folded = [motion.inputs.length - inputs.length, motion.outputs.length - outputs.length];
  const height = HEAD + count * row + (folded.some(many => many > 0) ? 24 : 0);
  const field = el('div', { class: 'nki-mo-field', style: { height: `${height}px` } });
  const arrows = svg('svg', { class: 'nki-mo-arrows', width: options.width, height, 'aria-hidden': 'true' });
  field.append(arrows);

  const place = (items: readonly (Operand | null)[], column: Column): (Placed | null)[] =>
    items.map((item, i) => {
      const shift = ((count - items.length) * row) / 2;
      return item && placed(context, motion, item, column, HEAD + shift + i * row, options);
    });
  const left = place(origins, columns.origin);
  const middle = place(inputs, columns.input);
  const right = place(outputs, columns.output);
  for (const item of [...left, ...middle, ...right])
    if (item) field.append(operandElement(context, motion, item, options));
  const engine = engineNode(motion, columns.engine, HEAD + (count * row) / 2);
  if (!isTransfer) field.append(engine.element);
  field.append(...heads(columns, inputs, outputs, hasOrigins, isTransfer));
  if (folded[0] > 0) field.append(fold(folded[0], columns.input, height, options.more));
  if (folded[1] > 0) field.append(fold(folded[1], columns.output, height, options.more));
  const middleY = HEAD + (count * row) / 2;
  left.forEach((from, i) => {
    const to = middle[i];
    if (from && to) arrows.append(arrow(from.right + 4, from.y, to.column.x - 4, to.y, 'dma', false));
  });
  if (isTransfer) {
    for (const from of middle)
      for (const to of right)
        if (from && to) {
          const isData = from.item.part !== 'index';
          arrows.append(arrow(from.right + 6, from.y, to.column.x - 6, to.y, from.item.hue, isData));
        }
    if (motion.transfer && motion.transfer.rate > 0) field.append(rate(motion, columns, middleY));
  } else {
    const { x, width } = engine;
    for (const from of middle) if (from) arrows.append(arrow(from.right + 4, from.y, x - 4, middleY, motion.hue, true));
    for (const to of right)
      if (to) arrows.append(arrow(x + width + 4, middleY, to.column.x - 4, to.y, motion.hue, true));
  }
  const caption = el('figcaption', { class: 'nki-live' }, describe(motion));
  const element = el('figure', { class: 'nki-mo-flow', 'aria-label': `Motion of ${motion.name}` }, field, caption);
  return {
    element,
    fill(share) {
      for (const item of right) item?.tile.fill(share);
    },
    move(isMoving) {
      arrows.classList.toggle('nki-mo-moving', isMoving);
    },
  };
}

function columnsOf(
  width: number,
  hasOrigins: boolean,
  isTransfer: boolean,
): Readonly<Record<'origin' | 'input' | 'engine' | 'output', Column>> {
  const shares = isTransfer ? [0, 0.42, 0.16, 0.42] : hasOrigins ? [0.25, 0.28, 0.18, 0.29] : [0, 0.38, 0.24, 0.38];
  const gap = 14;
  let x = PAD;
  const [origin, input, engine, output] = shares.map(share => {
    const column = { x, width: Math.max(share * width - gap, 0) };
    x += share * width + (share > 0 ? gap / 3 : 0);
    return column;
  });
  // Nothing follows on the right: names and shapes may take what is left of the panel.
  return { origin, input, engine, output: { ...output, width: PAD + width - output.x } };
}

/** Whether equal shades are the same row: not where indices choose rows. */
export function isShaded({ arrangement, inputs, outputs }: Motion): boolean {
  if (arrangement === 'undeclared' || arrangement === 'product') return false;
  return [...inputs, ...outputs].every(item => item.indirect === 'none');
}

function placed(
  { run }: Context,
  motion: Motion,
  item: Operand,
  column: Column,
  top: number,
  options: FlowOptions,
): Placed {
  const drawn = tile(item, {
    box: { width: column.width, height: options.tileHeight },
    axes: options.axes,
    partitions: run.capacity.partitions,
    shadeBy: isShaded(motion) ? shadeOf(item, motion.arrangement) : -1,
  });
  // In the middle of its row, so that arrows are short.
  const begin = top + Math.max(options.tileHeight - drawn.height, 0) / 2;
  return { item, tile: drawn, column, top: begin, y: begin + NAME + drawn.middle, right: column.x + drawn.width };
}

function operandElement(
  { run, store }: Context,
  motion: Motion,
  { item, tile, column, top }: Placed,
  options: FlowOptions,
): HTMLElement {
  const what = item.layout.known ? format.shape(item.buffer.shape) : 'shape not recorded';
  const shape = `${shapeText(item.buffer.shape, options.axes)}${options.axes && item.view.dtype ? ` ${item.view.dtype}` : ''}`;
  const about = captionOf(motion, item, run.capacity.psumBank);
  const idle = options.axes ? unused(item, run.capacity.partitions) : '';
  // Lines break between facts, not within an index.
  const text = [about, idle]
    .filter(part => part !== '')
    .join(' · ')
    .replace(/\[[^\]]*\]/g, index => index.replaceAll(' ', '\u00a0'));
  return el(
    'div',
    {
      class: 'nki-mo-operand',
      style: { left: `${column.x}px`, top: `${top}px`, width: `${column.width}px` },
    },
    el(
      'div',
      { class: 'nki-mo-line', title: `${named(item)} ${item.buffer.dtype} ${what}` },
      el(
        'button',
        {
          type: 'button',
          class: 'nki-bare nki-code nki-mo-name',
          title: `${named(item)} ${item.buffer.dtype} ${what}, select the tile`,
          on: { click: () => store.set({ tile: item.buffer.id }) },
        },
        ...nameParts(item.buffer.name),
      ),
      el('span', { class: 'nki-quiet nki-mo-shape', title: what }, item.layout.known ? shape : what),
    ),
    tile.element,
    el(
      'div',
      {
        class: `nki-mo-caption${outsideText(item) ? ' nki-mo-outside-text' : ''}`,
        title: `${named(item)} ${pattern(item.view)}`,
      },
      text,
    ),
    el(
      'div',
      { class: 'nki-mo-line nki-mo-links' },
      link(run, store, item.writer, 'Written by', 'previous', item.buffer.kind === 'input' ? 'input' : ''),
      link(run, store, item.reader, 'Next read by', 'next', item.buffer.kind === 'output' ? 'output' : ''),
    ),
  );
}

/** A name in two parts, the first of which may be cut: the index that tells tiles apart stays. */
function nameParts(name: string): HTMLElement[] {
  const at = name.endsWith(']') ? name.indexOf('[') : -1;
  const parts = at > 0 ? [name.slice(0, at), name.slice(at)] : [name];
  return parts.map((part, i) => el('span', { class: i === 0 ? 'nki-ellipsis' : 'nki-mo-index' }, part));
}

/** "128 × 512", where there is little room without the spaces. */
function shapeText(shape: readonly number[], isWide: boolean): string {
  const text = format.shape(shape);
  return isWide ? text : text.replaceAll(' × ', '×');
}

/** What stands below a tile: its part in the product, then where in the tensor it is. */
function captionOf(motion: Motion, item: Operand, bankBytes: number): string {
  const banks = banksOf(item, bankBytes);
  const where =
    (outsideText(item) && item.index ? `rows by ${item.index.name}` : indirection(item)) ||
    (banks ? `${banks[0] === banks[1] ? 'bank' : 'banks'} ${format.range(banks[0], banks[1])}` : '') ||
    item.subscript ||
    partitions(item) ||
    pattern(item.view);
  const outside = outsideText(item);
  const often = item.repeats > 1 ? `× ${format.count(item.repeats)}` : '';
  const adding = item.role === 'accumulate' ? accumulationText(motion).replace('accumulation', 'adds') : '';
  return [outside, item.part, where, often, adding].filter(text => text !== '').join(' · ');
}

function link(
  run: Context['run'],
  store: Context['store'],
  step: number,
  what: string,
  look: 'previous' | 'next',
  nowhere: string,
): HTMLElement | null {
  const isKnown = step >= 0;
  if (!isKnown && nowhere === '') return null;
  const isPrevious = look === 'previous';
  const name = isKnown && run.has(step) ? run.op(step).name : '';
  const label = isKnown ? `${what} #${format.ordinal(step)} ${name}`.trim() : `${what}: ${nowhere}`;
  return el(
    'button',
    {
      type: 'button',
      class: 'nki-mo-link',
      'aria-label': label,
      title: label,
      disabled: !isKnown,
      on: { click: () => store.select(step) },
    },
    isPrevious && icon(look, 10),
    isKnown ? `#${format.ordinal(step)}` : nowhere,
    !isPrevious && icon(look, 10),
  );
}

function heads(
  columns: ReturnType<typeof columnsOf>,
  inputs: readonly Operand[],
  outputs: readonly Operand[],
  hasOrigins: boolean,
  isTransfer: boolean,
): HTMLElement[] {
  const memories = (items: readonly Operand[]): string =>
    [...new Set(items.map(item => MEMORY_LABELS[item.buffer.space]))].join(', ');
  const head = ({ x, width }: Column, text: string, isCentred = false): HTMLElement =>
    el(
      'div',
      {
        class: isCentred ? 'nki-mo-head nki-mo-centred' : 'nki-mo-head',
        style: { left: `${x}px`, width: `${width}px` },
      },
      text,
    );
  const out = [head(columns.input, memories(inputs)), head(columns.output, memories(outputs))];
  if (hasOrigins) out.push(head(columns.origin, MEMORY_LABELS.hbm));
  if (!isTransfer) out.push(head(columns.engine, 'Engine', true));
  return out;
}

function fold(many: number, { x, width }: Column, height: number, more: () => void): HTMLElement {
  return el(
    'button',
    {
      type: 'button',
      class: 'nki-more nki-mo-more',
      style: { left: `${x}px`, width: `${width}px`, top: `${height - 24}px` },
      on: { click: more },
    },
    `+ ${format.plural(many, 'operand')}`,
  );
}

interface Node {
  readonly element: HTMLElement;
  readonly x: number;
  readonly width: number;
}

/** The engine; the PE array shows how much of it the stationary tile fills. */
function engineNode(motion: Motion, column: Column, middle: number): Node {
  const { product } = motion;
  const width = Math.min(column.width, 72);
  const x = column.x + (column.width - width) / 2;
  const content: (globalThis.Node | string)[] = [HUE_LABELS[motion.hue]];
  if (product) content.push(arrayFigure(product, 34));
  const element = el(
    'div',
    {
      class: 'nki-mo-engine',
      style: {
        left: `${x}px`,
        top: `${middle}px`,
        width: `${width}px`,
        '--hue': `var(--nki-${motion.hue})`,
        '--on-hue': `var(--nki-on-${motion.hue})`,
      },
    },
    ...content,
    product && el('small', {}, `K\u00a0${product.usedRows} of\u00a0${product.rows}`),
  );
  return { element, x, width };
}

/** The array with the rows and columns in use. */
export function arrayFigure(product: NonNullable<Motion['product']>, size: number): SVGSVGElement {
  const rows = (size * Math.min(product.usedRows, product.rows)) / Math.max(product.rows, 1);
  const columns = (size * Math.min(product.usedColumns, product.columns)) / Math.max(product.columns, 1);
  return svg(
    'svg',
    { class: 'nki-mo-array', width: size + 1, height: size + 1, 'aria-hidden': 'true' },
    svg('rect', { class: 'nki-mo-array-all', x: 0.5, y: 0.5, width: size, height: size }),
    svg('rect', { class: 'nki-mo-array-used', x: 0.5, y: 0.5, width: columns, height: rows }),
  );
}

function rate({ transfer }: Motion, { engine }: ReturnType<typeof columnsOf>, y: number): HTMLElement {
  const text = format.rate(transfer!.bytes, transfer!.duration);
  const style = { left: `${engine.x - 14}px`, width: `${engine.width + 28}px`, top: `${y - 34}px` };
  return el('div', { class: 'nki-mo-rate', style }, el('span', {}, text));
}

function arrow(x: number, y: number, toX: number, toY: number, hue: string, isOwn: boolean): SVGElement {
  const end = toX - 5;
  const bend = Math.max((end - x) / 2, 4);
  return svg(
    'g',
    { class: isOwn ? 'nki-mo-arrow' : 'nki-mo-arrow nki-mo-earlier', style: `--hue: var(--nki-${hue})` },
    svg('path', { class: 'nki-mo-path', d: `M${x} ${y}C${x + bend} ${y} ${end - bend} ${toY} ${end} ${toY}` }),
    svg('path', { class: 'nki-mo-tip', d: `M${toX} ${toY}l-6 -3.5v7z` }),
  );
}
