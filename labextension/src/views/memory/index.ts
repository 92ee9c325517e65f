/** The memory view: what lies where in SBUF and PSUM at the cursor's time, and for how long. */

import { el, setAttribute } from '../../dom';
import * as format from '../../format';
import { useStyle } from '../../styles';
import type { Context, State, View, ViewFactory } from '../../types';
import { createChart } from './chart';
import { createCard, createDetails } from './details';
import { createHead } from './head';
import style from './memory.css';
import tileStyle from './tile.css';
import { followPointer } from './pointer';
import { createPsum } from './psum';
import { createSbuf } from './sbuf';
import type { Choices, Scene } from './scene';
import { createPainters, modelOf, sceneOf } from './scene';
import { toFinding } from '../findings';
import { createTable, textOf } from './table';

/** From this width on there is room for the details column, the legend and the classes. */
const FULL_WIDTH = 860;
/** How long after the last change the pictures are described, in milliseconds. */
const SETTLED = 250;

export const createMemory: ViewFactory = (context: Context): View => {
  const { store } = context;
  let model = modelOf(context.run);
  let painters = createPainters(model);
  let choices: Choices = { colouring: store.state.colourBy, hex: false, letter: 'A' };
  let scene: Scene | undefined;
  let colourBy = store.state.colourBy;
  let settling = 0;

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
      body.hidden = on;
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
  const sbuf = createSbuf(finding => toFinding(context, finding));
  const body = el('div', { class: 'nki-memory-body' }, sbuf.element, psum.element, chart.element, details.element);
  const element = el(
    'section',
    { class: 'nki-memory', role: 'region' },
    head.element,
    body,
    table.element,
    card.element,
  );

  const draw = (state: State): void => {
    useStyle('memory', style + tileStyle, element);
    const width = element.clientWidth;
    if (width === 0) return;
    const compact = width < FULL_WIDTH;
    const palette = context.palette();
    const painter = painters(choices.colouring, palette);
    scene = sceneOf(model, state, choices, { palette, painter, compact });
    element.classList.toggle('nki-memory-full', !compact);
    setAttribute(element, 'aria-label', `Memory of ${model.run.kernel} at ${format.time(state.time)}`);
    details.element.hidden = compact && state.tile < 0;
    for (const part of [head, table]) part.draw(scene);
    if (!body.hidden) for (const part of [sbuf, psum, chart, details]) part.draw(scene);
    window.clearTimeout(settling);
    if (!state.playing) settling = window.setTimeout(describe, SETTLED);
  };
  const describe = (): void => {
    if (scene !== undefined) for (const part of [sbuf, psum, chart]) part.describe(scene);
  };

  const listening = [sbuf, psum, chart].map(section =>
    followPointer({ section, root: element, store, card, scene: () => scene }),
  );
  const observer = new ResizeObserver(() => draw(store.state));
  observer.observe(element);
  return {
    element,
    draw(state, changes) {
      if (state.colourBy !== colourBy) choices = { ...choices, colouring: (colourBy = state.colourBy) };
      if (changes.has('time') || changes.has('playing')) card.hide();
      draw(state);
    },
    reload(run) {
      model = modelOf(run, model);
      painters = createPainters(model);
      draw(store.state);
    },
    dispose() {
      observer.disconnect();
      window.clearTimeout(settling);
      listening.forEach(stop => stop());
    },
  };
};

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
