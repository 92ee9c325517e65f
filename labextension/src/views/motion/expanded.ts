/** The expanded view: the flow at a larger scale, with pattern table, bytes, descriptors and efficiency. */
import { ask } from '../../commands';
import { el, replace, setStyle } from '../../dom';
import * as format from '../../format';
import { icon } from '../../icons';
import { swatch } from '../../swatch';
import type { Context } from '../../types';
import { bytesFigure, descriptorsFigure, efficiencyFigure, gatherFigure } from './figures';
import { arrayFigure, createFlow, isShaded, type Flow } from './flow';
import { bytesOf } from './layout';
import type { Motion, Operand } from './model';
import { accumulationText, describe, indirection, named, pattern, productText, transferText } from './text';

const MOST = 6;
const ALL = 32;
/** Rows and columns are numbered from so many pixels on. */
const AXES = 640;
/** Below so many pixels the pictures stand below the flow. */
const NARROW = 940;
/** The width of the pictures beside the flow, and of what lies around them. */
const SIDE = 380;
const AROUND = 22;

export interface Expanded {
  readonly element: HTMLDialogElement;
  readonly isOpen: boolean;
  open(): void;
  /** Draw a motion; null with the reason why there is none. */
  draw(motion: Motion | null, reason: string): Flow | null;
}

export function createExpanded(context: Context, asked: HTMLElement, redraw: () => void): Expanded {
  const title = el('span', { class: 'nki-mo-title nki-ellipsis' });
  const facts = el('span', { class: 'nki-quiet nki-ellipsis' });
  const body = el('div', { class: 'nki-mo-body' });
  const control = (label: string, look: 'previous' | 'next' | 'copy' | 'close', act: () => void): HTMLElement =>
    el(
      'button',
      { type: 'button', class: 'nki-control', 'aria-label': label, title: label, on: { click: act } },
      icon(look, 14),
    );
  let shown: Motion | null = null;
  let most = MOST;
  const copy = (): void => {
    if (shown) void copyText(context, asText(shown));
  };
  const element = el(
    'dialog',
    { class: 'nki-mo-dialog', 'aria-label': 'Motion', tabindex: -1 },
    el(
      'div',
      { class: 'nki-mo-dialog-head' },
      el('h3', {}, 'Motion'),
      title,
      el('span', { class: 'nki-spacer' }),
      facts,
      control('Previous on the same engine', 'previous', () => ask(asked, 'previousAlong')),
      control('Next on the same engine', 'next', () => ask(asked, 'nextAlong')),
      control('Copy as text', 'copy', copy),
      control('Close', 'close', () => element.close()),
    ),
    body,
  );
  element.addEventListener('keydown', event => {
    const steps = { ArrowLeft: 'back', ArrowRight: 'forward', ',': 'previousAlong', '.': 'nextAlong' } as const;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape' || event.key.toLowerCase() === 'x') element.close();
    else if (event.key in steps) ask(asked, steps[event.key as keyof typeof steps]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return {
    element,
    get isOpen() {
      return element.open;
    },
    open() {
      if (!element.open) element.showModal();
      redraw();
    },
    draw(motion, reason) {
      if (motion?.step !== shown?.step) most = MOST;
      shown = motion;
      const had = element.contains(document.activeElement);
      let flow: Flow | null = null;
      if (motion === null) {
        replace(title);
        replace(facts);
        replace(body, el('p', { class: 'nki-quiet' }, reason));
      } else {
        replace(
          title,
          swatch(motion.hue),
          ' ',
          el('b', { class: 'nki-code' }, motion.name),
          ' ',
          el('span', { class: 'nki-code' }, sentence(motion)),
        );
        replace(facts, headline(motion));
        const all = element.clientWidth || 1080;
        const isNarrow = all < NARROW;
        body.classList.toggle('nki-mo-one', isNarrow);
        setStyle(body, { '--nki-mo-side': `${SIDE}px` });
        const width = isNarrow ? all : Math.min(Math.round(all * 0.62), all - SIDE - AROUND);
        flow = createFlow(context, motion, {
          width,
          tileHeight: motion.inputs.length > 2 || isNarrow ? 96 : 150,
          most,
          axes: all >= AXES,
          more: () => {
            most = ALL;
            redraw();
          },
        });
        replace(
          body,
          el('div', { class: 'nki-mo-left' }, flow.element, ...below(motion, width - 28)),
          el('div', { class: 'nki-mo-right' }, patternTable(motion), ...beside(motion)),
        );
      }
      if (had && !element.contains(document.activeElement)) element.focus();
      return flow;
    },
  };
}

/** "k_t ← k[:, 1536:2048]". */
function sentence({ inputs, outputs }: Motion): string {
  const list = (all: readonly Operand[]): string => {
    const items = all.filter(item => item.part !== 'index');
    return items.slice(0, 3).map(named).join(', ') + (items.length > 3 ? ', …' : '');
  };
  if (inputs.length && outputs.length) return `${list(outputs)} ← ${list(inputs)}`;
  return list(inputs.length ? inputs : outputs);
}

/** "64 KiB · 356 ns · 184 GB/s while its data move, 50 % of peak". */
export function headline(motion: Motion): string {
  const { transfer } = motion;
  const rate = transfer && transfer.duration > 0 ? format.rate(transfer.bytes, transfer.duration) : '';
  const share = transfer && transfer.peak > 0 ? `, ${format.percent(transfer.rate / transfer.peak)} of peak` : '';
  const said = [
    transfer ? format.bytes(transfer.bytes) : '',
    format.time(motion.duration),
    rate && `${rate} while its data move${share}`,
    motion.lane,
  ];
  return said.filter(text => text !== '').join(' · ');
}

function below(motion: Motion, width: number): (HTMLElement | null)[] {
  const inHbm = [...motion.inputs, ...motion.outputs].filter(item => item.buffer.space === 'hbm');
  const notes = [transferText(motion), productText(motion), accumulationText(motion)].filter(text => text !== '');
  const shade = isShaded(motion) ? 'Shade = source partition or row.' : '';
  return [
    ...inHbm.slice(0, 2).map(item => bytesFigure(item, width)),
    el('p', { class: 'nki-quiet nki-pad' }, [...notes, shade].filter(text => text !== '').join('. ')),
  ];
}

function beside(motion: Motion): (HTMLElement | null)[] {
  const { product } = motion;
  const gathers = [...motion.inputs, ...motion.outputs].map(gatherFigure);
  const array =
    product &&
    el(
      'div',
      { class: 'nki-mo-figure', style: { '--hue': `var(--nki-${motion.hue})` } },
      el('h4', {}, `PE array, ${product.rows} × ${product.columns}`),
      arrayFigure(product, 128),
      el('p', {}, productText(motion)),
    );
  return [...gathers, array, efficiencyFigure(motion), descriptorsFigure(motion)];
}

/** Each dimension of each operand: how many, how far apart. */
function patternTable(motion: Motion): HTMLElement {
  const rows = [...motion.inputs, ...motion.outputs].flatMap(item => {
    const size = bytesOf(item.view.dtype);
    const head = `${item.name || item.role} ${item.buffer.name}`;
    const dims = item.view.dims.map(([count, step], i) => {
      const isPartition = i === 0 && item.buffer.space !== 'hbm';
      const inPartitions = isPartition ? step / item.layout.columns : 0;
      const stride =
        isPartition && Number.isInteger(inPartitions)
          ? `${format.count(inPartitions)} part`
          : `${format.count(step)} el`;
      const bytes = isPartition || !(size > 0) ? '' : step === 0 ? 'broadcast' : format.bytes(step * size);
      return el(
        'tr',
        {},
        el('th', { scope: 'row' }, isPartition ? 'partition' : `dim ${i}`),
        el('td', {}, format.count(count)),
        el('td', {}, stride),
        el('td', {}, bytes),
      );
    });
    const note = [item.view.dtype, item.view.offset ? `+ ${format.count(item.view.offset)} el` : '', indirection(item)];
    return [
      el(
        'tr',
        { class: 'nki-mo-of' },
        el(
          'th',
          { colspan: 2, class: 'nki-ellipsis', title: pattern(item.view) },
          el('span', { class: 'nki-code' }, head),
        ),
        el('td', { colspan: 2 }, note.filter(text => text !== '').join(' · ')),
      ),
      ...(dims.length ? dims : [el('tr', {}, el('th', { scope: 'row' }, 'one element'), el('td', { colspan: 3 }))]),
    ];
  });
  if (!rows.length) return el('p', { class: 'nki-quiet' }, 'This instruction has no operand in memory.');
  return el(
    'table',
    { class: 'nki-mo-table' },
    el('caption', {}, 'Access pattern'),
    el(
      'thead',
      {},
      el('tr', {}, el('th', {}), ...['count', 'stride', 'bytes'].map(text => el('th', { scope: 'col' }, text))),
    ),
    el('tbody', {}, ...rows),
  );
}

/** The drawing in full, for a copy. */
export function asText(motion: Motion): string {
  const lines = [describe(motion)];
  for (const item of [...motion.inputs, ...motion.outputs])
    lines.push(`${item.role} ${named(item)} ${item.view.dtype} ${pattern(item.view)}`);
  lines.push(headline(motion));
  return `${lines.join('\n')}\n`;
}

export async function copyText({ speak }: Context, text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    speak('Copied');
  } catch {
    speak('The browser does not allow copying here');
  }
}
