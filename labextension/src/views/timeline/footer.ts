/** The line below the lanes: the legend, or what happened in the marked range. */
import { DEFINITIONS, FIGURE_LABELS, HUE_LABELS } from '../../_generated/schema';
import { ask } from '../../commands';
import { el, replace, setAttribute } from '../../dom';
import * as format from '../../format';
import { icon } from '../../icons';
import type { Context, Run, State } from '../../types';
import { engine } from '../../words';
import { aggregates, type Aggregates, busiest } from './area';
import type { Colouring } from './colour';

export interface Foot {
  readonly element: HTMLElement;
  /** `lane` is the one that the marked range was drawn on, -1 for none. */
  draw(run: Run, state: State, colouring: Colouring, lane: number): void;
}

export function createFooter(context: Context): Foot {
  const element = el('div', { class: 'nki-tl-foot' });
  return {
    element,
    draw(run, state, colouring, lane) {
      setAttribute(element, 'data-area', state.area !== null);
      if (state.area === null) replace(element, ...legend(colouring, run));
      else if (state.area.from === state.area.to) replace(element, ...marker(context, state.area.from));
      else {
        const told = aggregates(run, state.area, lane >= 0 ? lane : busiest(run, state.area));
        replace(element, ...areaBar(context, told, state.area.to - state.area.from));
      }
    },
  };
}

function legend(colouring: Colouring, run: Run): HTMLElement[] {
  const item = (look: string, text: string): HTMLElement =>
    el('span', { class: 'nki-tl-item' }, el('i', { class: `nki-tl-key ${look}` }), text);
  const merged = el('i', { class: 'nki-tl-key nki-tl-key-merged' }, '4');
  const keys = colouring.keys.map(({ label, colour }) =>
    el('span', { class: 'nki-tl-item' }, el('i', { class: 'nki-tl-key', style: { background: colour } }), label),
  );
  const working = keys.length === 0 ? [item('nki-tl-key-working', 'working')] : keys;
  const others = keys.length === 0 ? [] : [item('nki-tl-key-other', 'other')];
  const isLast = run.fault >= 0 && run.faultAfter;
  const failed =
    run.fault < 0
      ? []
      : [isLast ? item('nki-tl-key-last', 'last before the fault') : item('nki-tl-key-failed', 'failed here')];
  const key = (name: string): HTMLElement => el('kbd', {}, name);
  return [
    ...failed,
    ...working,
    ...others,
    item('nki-tl-key-waiting', 'waiting, in the colour of what it waits for'),
    item('nki-tl-key-critical', 'on the critical path'),
    el('span', { class: 'nki-tl-item nki-tl-less' }, merged, '4 merged at this zoom'),
    ...loopKeys(run, item),
    el('span', { class: 'nki-tl-spring' }),
    el(
      'span',
      { class: 'nki-tl-hint' },
      'Drag to measure · ',
      key('W'),
      key('S'),
      ' zoom · ',
      key('A'),
      key('D'),
      ' pan',
    ),
  ];
}

/** How iterations look, in words: what there is of in the run. */
function loopKeys(run: Run, item: (look: string, text: string) => HTMLElement): HTMLElement[] {
  const loops = run.loopTrack?.loops ?? [];
  const told = (look: string, name: 'warm_up' | 'outlier' | 'representative'): HTMLElement => {
    const made = item(`nki-tl-key-${look}`, FIGURE_LABELS[name]);
    made.classList.add('nki-tl-least');
    setAttribute(made, 'title', DEFINITIONS[name]);
    return made;
  };
  return [
    ...(loops.some(loop => loop.warm_up > 0) ? [told('warm-up', 'warm_up')] : []),
    ...(loops.some(loop => loop.outliers > 0) ? [told('outlier', 'outlier')] : []),
    ...(loops.some(loop => loop.iterations > 1) ? [told('representative', 'representative')] : []),
  ];
}

/** A range of which only one end is marked. */
function marker(context: Context, at: number): HTMLElement[] {
  const hint = el(
    'span',
    { class: 'nki-tl-fact' },
    'Move the cursor, then ',
    el('kbd', {}, 'M'),
    ' for the difference',
  );
  return [el('b', { class: 'nki-tl-fact' }, `Marker at ${format.time(at)}`), hint, spring(), closeButton(context)];
}

function spring(): HTMLElement {
  return el('span', { class: 'nki-tl-spring' });
}

function closeButton({ store }: Context): HTMLElement {
  const told = { 'aria-label': 'Clear the range', title: 'Clear the range (Esc)' };
  const on = { click: () => store.set({ area: null }) };
  return el('button', { type: 'button', class: 'nki-tl-tool nki-tl-close', ...told, on }, icon('close', 12));
}

function zoomButton(): HTMLElement {
  const cap = el('kbd', { 'aria-hidden': 'true' }, 'R');
  const button = el('button', { type: 'button', class: 'nki-tl-tool nki-tl-boxed' }, 'Zoom here', cap);
  button.addEventListener('click', () => ask(button, 'zoomArea'));
  return button;
}

/** How many engines the bar names; the tooltip names all. */
const ENGINES_SHOWN = 4;

/** "Busy Tensor 100 % · Vector 12 %": all engines that execute in the range, not only the one it was drawn on. */
function busyFact({ shares }: Aggregates): HTMLElement {
  const texts = shares.map(({ label, share }) => `${label} ${format.percent(share)}`);
  const more = texts.length > ENGINES_SHOWN ? ` · + ${texts.length - ENGINES_SHOWN}` : '';
  const text = texts.length > 0 ? texts.slice(0, ENGINES_SHOWN).join(' · ') + more : 'none';
  return el(
    'span',
    { class: 'nki-tl-fact', title: `${texts.join(', ')}. ${DEFINITIONS.busy}` },
    'Busy ',
    el('b', {}, text),
  );
}

function areaBar(context: Context, told: Aggregates, length: number): HTMLElement[] {
  const fact = (name: string, value: string): HTMLElement =>
    el('span', { class: 'nki-tl-fact' }, `${name} `, el('b', {}, value));
  const waits = told.waits.map(({ hue, share }) => `${engine(hue)} ${format.percentNumber(share)}`).join(' · ');
  const waiting = waits === '' ? [] : [' for ', el('b', {}, waits)];
  return [
    el('b', { class: 'nki-tl-fact' }, told.iteration || format.time(length)),
    fact('Steps', format.count(told.instructions)),
    busyFact(told),
    el(
      'span',
      { class: 'nki-tl-fact' },
      `${told.label} waiting `,
      el('b', {}, format.percent(told.waiting)),
      ...waiting,
    ),
    el(
      'span',
      { class: 'nki-tl-fact nki-tl-less' },
      `${HUE_LABELS.dma} `,
      el('b', {}, `${format.bytes(Math.round(told.bytes))} · ${format.rate(told.bytes, length)}`),
    ),
    spring(),
    el('span', { class: 'nki-tl-actions' }, zoomButton(), closeButton(context)),
  ];
}
