/** The memory view: what lies where in SBUF and PSUM at the cursor's time, and for how long. */

import { el, setAttribute } from '../../dom';
import * as format from '../../format';
import { useStyle } from '../../styles';
import type { Context, State, View, ViewFactory } from '../../types';
import { createChart } from './chart';
import { createCard, createDetails } from './details';
import { createHead } from './head';
import style from './memory.css';
import type { Tile } from './occupancy';
import { createPsum } from './psum';
import type { Section } from './sbuf';
import { createSbuf } from './sbuf';
import type { Choices, Scene } from './scene';
import { createPainters, modelOf, sceneOf } from './scene';
import { createTable, textOf } from './table';

/** From this width on there is room for the details column, the legend and the classes. */
const FULL_WIDTH = 860;
/** How long the pointer rests before a card opens, in milliseconds. */
const REST = 120;

export const createMemory: ViewFactory = (context: Context): View => {
  const { store } = context;
  let model = modelOf(context.run);
  let painters = createPainters(model);
  let choices: Choices = { colouring: 'engine', hex: false, letter: 'A' };
  let scene: Scene | undefined;

  const choose = (change: Partial<Choices>): void => {
    choices = { ...choices, ...change };
    draw(store.state);
  };
  const table = createTable(store);
  const head = createHead({
    colour(by) {
      choose({ colouring: by });
      if (by !== 'age') store.set({ colourBy: by });
    },
    used: on => store.set({ usedRange: on }),
    hex: on => choose({ hex: on }),
    table(on) {
      table.element.hidden = !on;
      draw(store.state);
    },
    copy() {
      if (scene !== undefined) copyText(textOf(scene), context.speak);
    },
  });
  const psum = createPsum();
  const chart = createChart(letter => choose({ letter }));
  const details = createDetails(store);
  const card = createCard();
  const showCode = (code: string): void => {
    const found = model.run.findings.find(finding => finding.code === code);
    const source = model.run.sources.findIndex(one => one.path === found?.file);
    if (found !== undefined) store.set({ line: { source: Math.max(0, source), line: found.line }, panel: 'source' });
  };
  const sbuf = createSbuf(showCode);
  const body = el('div', { class: 'nki-memory-body' }, sbuf.element, details.element, psum.element, chart.element);
  const element = el(
    'section',
    { class: 'nki-memory', role: 'region' },
    head.element,
    body,
    table.element,
    card.element,
  );

  const draw = (state: State): void => {
    useStyle('memory', style, element);
    const width = element.clientWidth;
    if (width === 0) return;
    const compact = width < FULL_WIDTH;
    const palette = context.palette();
    const painter = painters(choices.colouring, palette);
    scene = sceneOf(model, state, choices, { palette, painter, compact });
    element.classList.toggle('nki-memory-full', !compact);
    setAttribute(element, 'aria-label', `Memory of ${model.run.kernel} at ${format.time(state.time)}`);
    details.element.hidden = compact;
    for (const part of [head, sbuf, psum, chart, table]) part.draw(scene);
    if (!compact) details.draw(scene);
  };

  const listening = [sbuf, psum, chart].map(section => listenTo(section, element, context, () => scene, card));
  const observer = new ResizeObserver(() => draw(store.state));
  observer.observe(element);
  return {
    element,
    draw(state, changes) {
      if (changes.has('colourBy')) choices = { ...choices, colouring: state.colourBy };
      if (changes.has('time') || changes.has('playing')) card.hide();
      draw(state);
    },
    reload(run) {
      model = modelOf(run);
      painters = createPainters(model);
      draw(store.state);
    },
    dispose() {
      observer.disconnect();
      listening.forEach(stop => stop());
    },
  };
};

/** Hover previews, a click selects, a double click shows the whole life. Returns what ends it. */
function listenTo(
  section: Section,
  root: HTMLElement,
  { store }: Context,
  sceneNow: () => Scene | undefined,
  card: ReturnType<typeof createCard>,
): () => void {
  let resting = 0;
  let over = -1;
  const leave = (): void => {
    window.clearTimeout(resting);
    card.hide();
    if (over >= 0) store.set({ hover: { step: -1, tile: -1 } });
    over = -1;
  };
  const rest = (tile: Tile, event: PointerEvent): void => {
    const scene = sceneNow();
    if (scene === undefined || scene.state.playing) return;
    const bounds = root.getBoundingClientRect();
    card.show(scene, tile, event.clientX - bounds.left, event.clientY - bounds.top);
  };
  const moved = (event: PointerEvent): void => {
    const tile = section.tileAt(event);
    window.clearTimeout(resting);
    section.element.classList.toggle('nki-memory-over', tile !== undefined);
    if (tile === undefined) {
      leave();
      return;
    }
    if (over !== tile.buffer.id) {
      card.hide();
      over = tile.buffer.id;
      store.set({ hover: { step: -1, tile: over } });
    }
    resting = window.setTimeout(() => rest(tile, event), REST);
  };
  const clicked = (event: MouseEvent): void => {
    if (!(event.target instanceof HTMLCanvasElement)) return;
    store.set({ tile: section.tileAt(event)?.buffer.id ?? -1 });
  };
  const doubled = (event: MouseEvent): void => {
    const tile = section.tileAt(event);
    const scene = sceneNow();
    if (tile === undefined || scene === undefined) return;
    const to = Math.min(tile.gone, scene.run.makespan);
    const margin = (to - tile.start) * 0.05;
    store.show({ from: tile.start - margin, to: to + margin }, true);
  };
  section.element.addEventListener('pointermove', moved);
  section.element.addEventListener('pointerleave', leave);
  section.element.addEventListener('click', clicked);
  section.element.addEventListener('dblclick', doubled);
  return () => window.clearTimeout(resting);
}

function copyText(text: string, speak: (text: string) => void): void {
  // Pages from files and embedded frames may have no clipboard.
  const clipboard = (navigator as { clipboard?: Clipboard }).clipboard;
  if (clipboard === undefined) {
    speak('This page may not use the clipboard.');
    return;
  }
  clipboard.writeText(text).then(
    () => speak('Copied'),
    () => speak('This page may not use the clipboard.'),
  );
}
