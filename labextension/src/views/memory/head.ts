/** The first line of the memory view: time, operands, and what can be chosen. */

import { el, setAttribute, setText } from '../../dom';
import * as format from '../../format';
import type { Colouring } from './colour';
import type { Scene } from './scene';
import { operandsOf } from './scene';

export interface Actions {
  colour(by: Colouring): void;
  used(on: boolean): void;
  hex(on: boolean): void;
  table(on: boolean): void;
  copy(): void;
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

export function createHead(actions: Actions): Head {
  const when = el('span', { class: 'nki-memory-words' });
  const operands = el('span', { class: 'nki-memory-operands' });
  const controls = createControls(actions);
  const menu = el(
    'details',
    { class: 'nki-memory-menu' },
    el('summary', { title: 'View options', 'aria-label': 'View options' }, '⋯'),
  );
  const element = el('header', { class: 'nki-memory-head' }, el('h3', {}, 'Memory'), when, operands, menu);
  menu.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || !menu.open) return;
    menu.open = false;
    menu.querySelector('summary')?.focus();
    event.stopPropagation();
  });
  return {
    element,
    draw(scene) {
      const { state, run } = scene;
      const at = `at ${format.time(state.time)}`;
      const step = state.step >= 0 ? ` · step ${format.ordinal(state.step)}` : '';
      setText(when, scene.compact ? at : `${run.kernel} · ${at}${step}`);
      setAttribute(when, 'title', when.textContent);
      drawOperands(operands, scene);
      const host = scene.compact ? menu : element;
      if (controls.element.parentElement !== host) host.append(controls.element);
      menu.hidden = !scene.compact;
      controls.draw(scene);
    },
  };
}

/** The names of the current instruction's operands that are on the chip. */
function drawOperands(element: HTMLElement, scene: Scene): void {
  const { run, state } = scene;
  const step = state.selected >= 0 ? state.selected : state.step;
  const names = scene.compact
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
  const element = el(
    'div',
    { class: 'nki-memory-controls' },
    el('span', { class: 'nki-memory-words' }, 'Colour'),
    group('Colour', ...colours),
    group('Range', full, used),
    group('Table', hex, table, copy),
  );
  setAttribute(table, 'aria-pressed', 'false');
  return {
    element,
    draw(scene) {
      on = { ...on, used: scene.state.usedRange, hex: scene.hex };
      COLOURINGS.forEach(([by], place) =>
        setAttribute(colours[place] ?? full, 'aria-pressed', String(scene.colouring === by)),
      );
      setAttribute(full, 'aria-pressed', String(!on.used));
      setAttribute(used, 'aria-pressed', String(on.used));
      setAttribute(hex, 'aria-pressed', String(on.hex));
    },
  };
}
