/** The line above the timeline: what it is, colour, critical path, search, fit. */
import { ask, type Command } from '../../commands';
import { el, setAttribute, setText } from '../../dom';
import { icon } from '../../icons';
import { rove } from '../../roving';
import type { ColourBy, Context, Run, State } from '../../types';

const COLOURS: readonly (readonly [ColourBy, string])[] = [
  ['engine', 'Engine'],
  ['op', 'Op'],
  ['line', 'Line'],
  ['tensor', 'Tensor'],
];

export interface Header {
  readonly element: HTMLElement;
  draw(run: Run, state: State): void;
}

export function createHeader(context: Context): Header {
  const { store } = context;
  const name = el('span', { class: 'nki-tl-kernel' });
  const colours = COLOURS.map(([by, label]) => colourButton(by, label, () => store.set({ colourBy: by })));
  const choice = el('div', { class: 'nki-tl-choice', role: 'radiogroup', 'aria-label': 'Colour by' }, ...colours);
  rove(choice, 'button');
  const critical = tool('Critical path', 'C', 'critical');
  critical.prepend(icon('critical', 12));
  const search = tool('Search', '/', 'search');
  search.prepend(icon('search', 12));
  const fit = tool('Fit', 'F', 'fit');
  const element = el(
    'div',
    { class: 'nki-tl-header' },
    el('span', { class: 'nki-tl-title' }, 'Timeline'),
    name,
    el('span', { class: 'nki-tl-spring' }),
    el('span', { class: 'nki-tl-word' }, 'Colour'),
    choice,
    critical,
    search,
    fit,
  );
  return {
    element,
    draw(run, state) {
      setText(name, run.kernel);
      setAttribute(name, 'title', run.kernel);
      COLOURS.forEach(([by], at) => setAttribute(colours[at], 'aria-checked', String(state.colourBy === by)));
      setAttribute(critical, 'aria-pressed', String(state.showCritical));
    },
  };
}

function colourButton(by: ColourBy, label: string, choose: () => void): HTMLButtonElement {
  return el('button', { type: 'button', role: 'radio', 'data-colour': by, on: { click: choose } }, label);
}

function tool(label: string, key: string, command: Command): HTMLButtonElement {
  const cap = el('kbd', { 'aria-hidden': 'true' }, key);
  const told = { 'aria-label': label, 'aria-keyshortcuts': key, title: `${label} (${key})` };
  const word = el('span', { class: 'nki-tl-label' }, label);
  const button = el('button', { type: 'button', class: 'nki-tl-tool', ...told }, word, cap);
  button.addEventListener('click', () => ask(button, command));
  return button;
}
