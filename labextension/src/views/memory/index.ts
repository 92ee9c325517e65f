/** The memory view: what lies where in SBUF and PSUM at the cursor's time, and for how long. */

import { el, setAttribute } from '../../dom';
import * as format from '../../format';
import { useStyle } from '../../styles';
import { widthOf } from '../../drawing';
import type { Context, Run, State, View, ViewFactory } from '../../types';
import { toFinding } from '../findings';
import { createChart } from './chart';
import { coreOfStep } from './cores';
import { createCard, createDetails } from './details';
import { rowOf } from './facts';
import { createFocus } from './focus';
import type { Fold } from './folds';
import { createCores, createHead } from './head';
import style from './memory.css';
import tileStyle from './tile.css';
import { followPointer } from './pointer';
import { createPsum } from './psum';
import { createQueryBar } from './query_bar';
import { UNZOOMED } from './ranges';
import { createSbuf } from './sbuf';
import type { Choices, Model, Moment, Scene } from './scene';
import { createPainters, modelOf, sceneOf } from './scene';
import type { Section, Spot, Stop } from './section';
import { createTable, textOf } from './table';
import { axesOf, bindZoom, zoomByKey } from './zooming';

/** From this width on there is room for the details column and all words. */
const FULL_WIDTH = 860;
/** How long after the last change the pictures are described, in milliseconds. */
const SETTLED = 250;

export const createMemory: ViewFactory = (context: Context): View => {
  const { store } = context;
  let model = modelOf(context.run);
  let painters = createPainters(model);
  let choices: Choices = { colouring: store.state.colourBy, hex: false, part: 0, zoom: UNZOOMED };
  let scene: Scene | undefined;
  let { colourBy, usedRange } = store.state;
  let settling = 0;
  const moment = createMoment(store.state);

  const choose = (change: Partial<Choices>): void => {
    choices = { ...choices, ...change };
    draw(store.state);
  };
  const sceneNow = (): Scene | undefined => scene;
  const axes = axesOf({ store, scene: sceneNow, change: zoom => choose({ zoom }) });
  const table = createTable(store);
  const head = createHead({
    colour(by) {
      choose({ colouring: by });
      if (by !== 'age') store.set({ colourBy: by });
    },
    used(on) {
      choose({ zoom: UNZOOMED });
      store.set({ usedRange: on });
    },
    hex: on => choose({ hex: on }),
    table(on) {
      table.element.hidden = !on;
      body.hidden = on;
      draw(store.state);
    },
    copy() {
      if (scene !== undefined) copyText(textOf(scene), context.speak);
    },
    core: core => chooseCore(core),
    expand: () => store.set({ expanded: store.state.expanded === 'memory' ? null : 'memory' }),
    go() {
      if (scene !== undefined) store.goTo(scene.time);
    },
  });
  const chooseCore = (core: number): void => {
    moment.choose(core);
    draw(store.state);
  };
  const cores = createCores(chooseCore);
  const query = createQueryBar(store, sceneNow, () => draw(store.state));
  const bar = el('div', { class: 'nki-memory-bar' }, cores.element, query.field);
  const psum = createPsum();
  const chart = createChart(part => choose({ part }));
  const details = createDetails(store, query);
  const card = createCard();
  const sbuf = createSbuf(finding => toFinding(context, finding));
  const sections: readonly Section[] = [sbuf, psum, chart];
  const body = el('div', { class: 'nki-memory-body' }, ...sections.map(section => section.element), details.element);
  const element = el('section', { class: 'nki-memory', role: 'region' });
  element.append(head.element, bar, body, table.element, card.element);

  let drawnWidth = 0;
  const draw = (state: State): void => {
    useStyle('memory', style + tileStyle, element);
    const width = widthOf(element);
    drawnWidth = width;
    if (width === 0) return;
    const compact = width < FULL_WIDTH;
    const palette = context.palette();
    const painter = painters(choices.colouring, palette);
    scene = sceneOf(model, state, choices, { palette, painter, compact, ...moment.at(model, state) });
    element.classList.toggle('nki-memory-full', !compact);
    const where = model.cores.length > 1 ? `, ${model.run.coreName(scene.core)},` : '';
    setAttribute(element, 'aria-label', `Memory of ${model.run.kernel}${where} at ${format.time(scene.time)}`);
    for (const part of [head, cores, table]) part.draw(scene);
    if (!body.hidden) {
      for (const part of [...sections, details]) part.draw(scene);
      for (const focus of focuses) focus.draw();
    }
    window.clearTimeout(settling);
    if (!state.playing) settling = window.setTimeout(describe, SETTLED);
  };
  const describe = (): void => {
    if (scene !== undefined) for (const section of sections) section.describe(scene);
  };
  const zoomInto = (fold: Fold): void => {
    const first = fold.boxes[0]?.tile.low ?? 0;
    const last = fold.boxes.reduce((most, box) => Math.max(most, box.tile.high), first);
    axes.show('bytes', { from: first, to: last });
  };
  const chosen = (spot: Spot): void => {
    if (scene === undefined) return;
    query.ask(scene, spot);
    if (spot.fold !== undefined && spot.tile === undefined) zoomInto(spot.fold);
    else store.set({ tile: spot.tile?.buffer.id ?? -1 });
  };
  const listening = sections.map(section => {
    const { dragged } = bindZoom(section, axes);
    const cleared = (): void => axes.reset();
    return followPointer({ section, root: element, store, card, scene: sceneNow, dragged, chosen, cleared });
  });
  const labelOf = ({ tile, fold }: Stop): string => {
    if (scene === undefined) return '';
    if (tile === undefined) return `${fold?.boxes.length ?? 0} dead tiles, folded: Enter zooms in`;
    const [name, phase, address, size, partitions, writer] = rowOf(
      model.run,
      tile,
      scene.time,
      scene.usage.written(tile, scene.time),
    );
    const by = writer === '' ? '' : `, written by ${writer}`;
    return `${name}, ${phase}, ${address}, ${size} in partitions ${partitions}${by}`;
  };
  const names = ['Tiles in SBUF', 'Tiles in PSUM', 'Lifetimes in SBUF'];
  const focuses = sections.map((section, place) =>
    createFocus({
      section,
      name: names[place] ?? '',
      labelOf,
      select({ tile, fold }) {
        if (tile !== undefined) store.set({ tile: tile.buffer.id });
        else if (fold !== undefined) zoomInto(fold);
      },
      zoom: (event, stop) => zoomByKey(event, section, axes, stop),
      speak: context.speak,
    }),
  );
  // What is drawn makes it higher or lower, but not wider.
  const observer = new ResizeObserver(() => {
    if (element.clientWidth !== drawnWidth) draw(store.state);
  });
  observer.observe(element);
  return {
    element,
    draw(state, changes) {
      if (state.colourBy !== colourBy) choices = { ...choices, colouring: (colourBy = state.colourBy) };
      if (state.usedRange !== usedRange) {
        usedRange = state.usedRange;
        choices = { ...choices, zoom: UNZOOMED };
      }
      if (changes.has('time') || changes.has('playing')) card.hide();
      draw(state);
    },
    reload(run: Run) {
      model = modelOf(run, model);
      painters = createPainters(model);
      draw(store.state);
    },
    dispose() {
      observer.disconnect();
      window.clearTimeout(settling);
      chart.dispose();
      listening.forEach(stop => stop());
    },
  };
};

/**
 * Which core and time are shown. Until somebody moves the cursor of a run that did not fail, that is the fullest
 * moment; then the cursor's. The core is that of the instruction or tile selected last, unless one was chosen since.
 */
function createMoment(first: State): { choose(core: number): void; at(model: Model, state: State): Moment } {
  let core = -1;
  let moved = first.selected >= 0;
  let { selected, tile } = { selected: -1, tile: -1 };
  return {
    choose(other) {
      core = other;
    },
    at(model, state) {
      const { run, cores } = model;
      moved ||= state.time !== first.time || state.step !== first.step || state.selected >= 0 || state.playing;
      if (state.selected !== selected) {
        selected = state.selected;
        const own = coreOfStep(run, selected);
        if (cores.includes(own)) core = own;
      }
      if (state.tile !== tile) {
        tile = state.tile;
        const buffer = tile >= 0 ? run.buffers[tile] : undefined;
        if (buffer?.space === 'sbuf' || buffer?.space === 'psum') core = buffer.core;
      }
      if (!cores.includes(core)) core = fullestCore(model);
      const { peak } = model.memoryOf(core);
      return moved || peak === null || peak.bytes === 0
        ? { core, time: state.time, atPeak: false }
        : { core, time: peak.time, atPeak: true };
    },
  };
}

function fullestCore({ cores, memoryOf }: Model): number {
  const peaks = cores.map(core => memoryOf(core).peak?.bytes ?? 0);
  return cores[peaks.indexOf(Math.max(...peaks))] ?? 0;
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
