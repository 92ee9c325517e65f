/** The first line of the memory view: time, operands, and what can be chosen. */

import { el, replace, setAttribute, setText } from '../../dom';
import * as format from '../../format';
import type { Colouring } from './colour';
import { createLegend } from './legend';
import type { Scene } from './scene';
import { operandsOf } from './scene';

export interface Actions {
  colour(by: Colouring): void;
  used(on: boolean): void;
  hex(on: boolean): void;
  table(on: boolean): void;
  copy(): void;
  core(core: number): void;
  expand(): void;
  /** Set the cursor to the moment shown. */
  go(): void;
}

export interface Head {
  readonly element: HTMLElement;
  draw(scene: Scene): void;
}

const COLOURINGS = [
  ['engine', 'Writer'],
  ['tensor', 'Tensor'],
  ['line', 'Line'],
  ['age', 'Age'],
] as const;

/** Operands named in the compact head. */
const NAMED = 3;
const UNTOUCHED = 'The cursor has not been moved yet: this is the moment at which most bytes of SBUF are in use.';

export function createHead(actions: Actions): Head {
  const when = el('span', { class: 'nki-memory-words' });
  const go = el(
    'button',
    { type: 'button', title: 'Set the cursor to this time', on: { click: () => actions.go() } },
    'Go there',
  );
  const operands = el('span', { class: 'nki-memory-operands' });
  const expand = el('button', {
    type: 'button',
    class: 'nki-memory-expand',
    on: { click: () => actions.expand() },
  });
  const controls = createControls(actions);
  const menu = el(
    'details',
    { class: 'nki-memory-menu' },
    el('summary', { title: 'View options and legend', 'aria-label': 'View options and legend' }, '⋯'),
  );
  const element = el('header', { class: 'nki-memory-head' }, el('h3', {}, 'Memory'), when, go, operands, menu, expand);
  menu.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || !menu.open) return;
    menu.open = false;
    menu.querySelector('summary')?.focus();
    event.stopPropagation();
  });
  return {
    element,
    draw(scene) {
      const { state, run, atPeak } = scene;
      const fullest = scene.compact ? 'fullest at' : 'at its fullest,';
      const at = `${atPeak ? fullest : 'at'} ${format.time(scene.time)}`;
      const step = !atPeak && state.step >= 0 ? ` · step ${format.ordinal(state.step)}` : '';
      setText(when, scene.compact ? at : `${run.kernel} · ${at}${step}`);
      setAttribute(when, 'title', atPeak ? UNTOUCHED : when.textContent);
      go.hidden = !atPeak;
      drawOperands(operands, scene);
      const expanded = state.expanded === 'memory';
      setText(expand, expanded ? '⤡' : '⤢');
      setAttribute(expand, 'aria-pressed', String(expanded));
      const words = expanded ? 'Back into its column' : 'Expand across the width';
      setAttribute(expand, 'title', words);
      setAttribute(expand, 'aria-label', `${words}: memory`);
      expand.hidden = state.layout === 'narrow' && !expanded;
      if (scene.compact) {
        if (controls.element.parentElement !== menu) menu.append(controls.element);
      } else if (controls.element.parentElement !== element) menu.before(controls.element);
      menu.hidden = !scene.compact;
      controls.draw(scene);
    },
  };
}

/** The names of the current instruction's operands that are on the chip. */
function drawOperands(element: HTMLElement, scene: Scene): void {
  const { run, state } = scene;
  const step = state.selected >= 0 ? state.selected : state.step;
  const names =
    scene.compact && !scene.atPeak
      ? operandsOf(run, step)
          .map(id => scene.sbuf.of(id) ?? scene.psum.of(id))
          .filter(tile => tile !== undefined)
          .map(tile => tile.buffer.name)
      : [];
  const shown = names.slice(0, NAMED);
  if (names.length > NAMED) shown.push(`+ ${names.length - NAMED}`);
  setText(element, shown.join(' '));
  setAttribute(element, 'title', names.length > 0 ? names.join(' ') : null);
}

/** Of more cores one is chosen from a list. */
const MOST_BUTTONS = 6;

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function coreList(scene: Scene, choose: (core: number) => void): HTMLElement {
  const options = scene.cores.map(core =>
    el('option', { value: String(core), selected: core === scene.core }, capital(scene.run.coreName(core))),
  );
  const list = el('select', { class: 'nki-memory-core', 'aria-label': 'Core' }, ...options);
  list.addEventListener('change', () => choose(Number(list.value)));
  return list;
}

/** The switch between cores; empty where there is one only. */
export function createCores(choose: (core: number) => void): Head {
  const element = el('span', { class: 'nki-memory-cores', role: 'group', 'aria-label': 'Core', hidden: true });
  let known = '';
  return {
    element,
    draw(scene) {
      const key = scene.cores.length < 2 ? '' : `${scene.cores.join(' ')} ${scene.core}`;
      if (key === known) return;
      const focused = element.contains(document.activeElement);
      known = key;
      element.hidden = key === '';
      if (element.hidden) {
        replace(element);
        return;
      }
      if (scene.cores.length > MOST_BUTTONS) {
        replace(element, coreList(scene, choose));
        if (focused) element.querySelector('select')?.focus();
        return;
      }
      const buttons = scene.cores.map(core =>
        el(
          'button',
          {
            type: 'button',
            'aria-pressed': String(core === scene.core),
            title: `Memories of ${scene.run.coreName(core)}; a selected instruction brings those of its own`,
            on: { click: () => choose(core) },
          },
          capital(scene.run.coreName(core)),
        ),
      );
      replace(element, ...buttons);
      if (focused) buttons[scene.cores.indexOf(scene.core)]?.focus();
    },
  };
}

function createControls(actions: Actions): Head {
  let on = { used: true, hex: false, table: false };
  const button = (words: string, title: string, click: () => void): HTMLButtonElement =>
    el('button', { type: 'button', title, on: { click } }, words);
  const colours = COLOURINGS.map(([by, words]) =>
    button(words, `Colour by ${words.toLowerCase()}`, () => actions.colour(by)),
  );
  const full = button('Full range', 'All of the memory', () => actions.used(false));
  const used = button('Used', 'The range in use (U)', () => actions.used(true));
  used.append(el('kbd', {}, 'U'));
  const hex = button('0x', 'Addresses in hexadecimal', () => actions.hex(!on.hex));
  const table = button('Table', 'The tiles as a table', () => {
    on.table = !on.table;
    setAttribute(table, 'aria-pressed', String(on.table));
    actions.table(on.table);
  });
  const copy = button('Copy as text', 'Copy the tiles as text', () => actions.copy());
  const group = (label: string, ...items: HTMLElement[]): HTMLElement =>
    el('span', { role: 'group', 'aria-label': label, class: 'nki-memory-group' }, ...items);
  const legend = createLegend();
  const keys = el(
    'p',
    { class: 'nki-memory-hint' },
    'Ctrl or ⌘ with the wheel, or a drag, zooms; with the focus on a tile + − 0 do.',
  );
  const element = el(
    'div',
    { class: 'nki-memory-controls' },
    el('span', { class: 'nki-memory-words' }, 'Colour'),
    group('Colour', ...colours),
    group('Range', full, used),
    group('Table', hex, table, copy),
    legend,
    keys,
  );
  setAttribute(table, 'aria-pressed', 'false');
  return {
    element,
    draw(scene) {
      on = { ...on, used: scene.state.usedRange, hex: scene.hex };
      const zoomed = scene.zoom.bytes !== null || scene.zoom.rows !== null;
      COLOURINGS.forEach(([by], place) =>
        setAttribute(colours[place] ?? full, 'aria-pressed', String(scene.colouring === by)),
      );
      setAttribute(full, 'aria-pressed', String(!on.used && !zoomed));
      setAttribute(used, 'aria-pressed', String(on.used && !zoomed));
      setAttribute(hex, 'aria-pressed', String(on.hex));
      legend.hidden = keys.hidden = !scene.compact;
    },
  };
}
