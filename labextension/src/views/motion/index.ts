/** The current instruction: what it reads, where that lies, and what it writes. */
import { el, replace, setText } from '../../dom';
import * as format from '../../format';
import { icon } from '../../icons';
import { useStyle } from '../../styles';
import type { Changes, Context, State, View } from '../../types';
import { asText, copyText, createExpanded, headline } from './expanded';
import { createFlow, type Flow } from './flow';
import { createIndices } from './indices';
import { motionOf, progress, type Motion, type Operand } from './model';
import style from './motion.css';
import { accumulationText, transferText } from './text';

/** Tiles by the number of operands on a side: what the panel has room for. */
const TILE_HEIGHTS = [64, 64, 40, 20] as const;
const MOST = 3;
/** Taken where nothing is laid out yet. */
const WIDTH = 400;

export interface MotionView extends View {
  /** The dialog that shows it large. It stands apart: where the view is out of sight it would be there unseen. */
  readonly dialog: HTMLDialogElement;
  /** Show it large, in a dialog. */
  expand(): void;
}

export function createMotion(context: Context): MotionView {
  const { run, store } = context;
  const about = el('span', { class: 'nki-quiet nki-ellipsis' });
  const body = el('div', { class: 'nki-mo-panel' });
  const foot = el('div', { class: 'nki-mo-foot nki-quiet nki-ellipsis' });
  const button = (label: string, look: 'copy' | 'expand', act: () => void): HTMLElement =>
    el(
      'button',
      { type: 'button', class: 'nki-control', 'aria-label': label, title: label, on: { click: act } },
      icon(look, 14),
    );
  let motion: Motion | null = null;
  let flows: Flow[] = [];
  let drawn = -2;
  let width = WIDTH;

  const element = el(
    'section',
    { class: 'nki-panel nki-motion', role: 'region', 'aria-label': 'Motion' },
    el(
      'div',
      { class: 'nki-panel-head' },
      el('h3', {}, 'Motion'),
      about,
      el('span', { class: 'nki-spacer' }),
      button('Copy motion as text', 'copy', () => {
        if (motion) void copyText(context, asText(motion));
      }),
      button('Expand motion (X)', 'expand', () => expanded.open()),
    ),
    body,
    foot,
  );
  const expanded = createExpanded(context, element, () => draw(store.state, true));

  const reason = (step: number): string => {
    if (step < 0) return 'No instruction is selected.';
    return run.has(step) ? '' : `Step ${format.ordinal(step)} is not loaded.`;
  };
  const draw = (state: State, isForced = false): void => {
    const { step } = state;
    if (isForced || step !== drawn) {
      useStyle('motion', style, element);
      drawn = step;
      const missing = reason(step);
      motion = missing === '' ? motionOf(run, step, indices.of) : null;
      flows = [];
      if (motion) {
        const options = { width, tileHeight: heightOf(motion), most: MOST, axes: false, more: () => expanded.open() };
        const flow = createFlow(context, motion, options);
        flows.push(flow);
        setText(about, `${motion.name}, ${format.time(motion.duration)}`);
        const text = footText(motion);
        setText(foot, text);
        foot.title = text;
        const empty = motion.inputs.length + motion.outputs.length === 0;
        replace(
          body,
          empty ? el('p', { class: 'nki-quiet nki-pad' }, 'No operand in memory: nothing moves.') : flow.element,
        );
      } else {
        setText(about, '');
        setText(foot, '');
        replace(body, el('p', { class: 'nki-quiet nki-pad' }, missing));
      }
      if (expanded.isOpen) {
        const flow = expanded.draw(motion, missing);
        if (flow) flows.push(flow);
      }
    }
    indices.ask(state);
    advance(state);
  };
  const indices = createIndices(context, step => {
    if (step === store.state.step && !isHidden()) draw(store.state, true);
  });
  /** Show how far the instruction is at the cursor; a cursor at its start shows all of it. */
  const advance = ({ time, playing }: State): void => {
    if (motion === null) return;
    const share = playing || time > motion.start ? progress(motion, time) : 1;
    for (const flow of flows) {
      flow.fill(share);
      flow.move(playing && share < 1);
    }
  };
  // Asking for the width while drawing would lay the page out once more.
  const observer = new ResizeObserver(() => {
    const available = body.clientWidth;
    if (!available || available === width) return;
    width = available;
    if (drawn !== -2) draw(store.state, true);
  });
  observer.observe(body);
  const isHidden = (): boolean => !expanded.isOpen && element.closest('[hidden]') !== null;
  return {
    element,
    draw(state: State, changes: Changes) {
      if (isHidden()) return;
      if (changes.has('step') || changes.has('layout') || changes.has('panel') || drawn === -2) draw(state);
      else if (changes.has('time') || changes.has('playing')) {
        if (changes.has('playing')) indices.ask(state);
        advance(state);
      }
    },
    reload() {
      drawn = -2;
      indices.forget();
      if (!isHidden()) draw(store.state);
    },
    dialog: expanded.element,
    expand: () => expanded.open(),
    dispose() {
      observer.disconnect();
      indices.dispose();
      if (expanded.isOpen) expanded.element.close();
    },
  };
}

function heightOf({ inputs, outputs }: Motion): number {
  return TILE_HEIGHTS[Math.min(Math.max(inputs.length, outputs.length), MOST)];
}

/** The facts that have no place in the drawing. */
function footText(motion: Motion): string {
  const { transfer } = motion;
  if (transfer) {
    const steady = transfer.share > 0 ? `back to back ${format.percent(transfer.share)} of peak` : '';
    return [transferText(motion), motion.lane, steady].filter(text => text !== '').join(' · ');
  }
  const { product } = motion;
  if (product) {
    const used = [`K ${product.usedRows} of ${product.rows}`, `M ${product.usedColumns} of ${product.columns}`];
    if (product.streamed > 0) used.push(`N ${format.count(product.streamed)}`);
    return [...used, accumulationText(motion)].filter(text => text !== '').join(' · ');
  }
  const [result] = motion.outputs.length ? motion.outputs : motion.inputs;
  if (result === undefined) return headline(motion);
  const [partitions] = result.view.dims[0] ?? [1];
  const each = partitions > 0 ? result.elements / partitions : 0;
  if (result.buffer.space === 'hbm') return headline(motion);
  const dtypes = (items: readonly Operand[]): string => [...new Set(items.map(item => item.view.dtype))].join(', ');
  const casts = [dtypes(motion.inputs), dtypes(motion.outputs)].filter(text => text !== '').join(' → ');
  const count = `${format.plural(each, 'element')} per partition on ${format.plural(partitions, 'partition')}`;
  return [count, casts, motion.lane].filter(text => text !== '').join(' · ');
}
