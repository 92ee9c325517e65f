/** The line above the timeline: what it is, colour, critical path, search, fit. */
import { ask, type Command } from '../../commands';
import { el, setAttribute, setText } from '../../dom';
import { icon } from '../../icons';
import { rest, rove } from '../../roving';
import { STALL_RULE } from '../../stalls';
import type { ColourBy, Context, Run, State } from '../../types';
import { isOpen } from './search_bar';

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
  const jumps = JUMPS.map(jump);
  const element = el(
    'div',
    { class: 'nki-tl-header' },
    el('span', { class: 'nki-tl-title' }, 'Timeline'),
    name,
    el('span', { class: 'nki-tl-spring' }),
    el('span', { class: 'nki-tl-jumps' }, ...jumps),
    el('span', { class: 'nki-tl-colours' }, el('span', { class: 'nki-tl-word' }, 'Colour'), choice),
    el('span', { class: 'nki-tl-tools' }, critical, search, fit),
  );
  return {
    element,
    draw(run, state) {
      setText(name, run.kernel);
      setAttribute(name, 'title', run.kernel);
      COLOURS.forEach(([by], at) => setAttribute(colours[at], 'aria-checked', String(state.colourBy === by)));
      rest(choice, 'button', colours[COLOURS.findIndex(([by]) => by === state.colourBy)]);
      setAttribute(critical, 'aria-pressed', String(state.showCritical));
      setAttribute(search, 'aria-pressed', String(isOpen(state)));
      JUMPS.forEach(({ when }, at) => (jumps[at].hidden = !when(run)));
    },
  };
}

function colourButton(by: ColourBy, label: string, choose: () => void): HTMLButtonElement {
  return el('button', { type: 'button', role: 'radio', 'data-colour': by, on: { click: choose } }, label);
}

interface Jump {
  readonly word: string;
  /** What a button goes to, after "Previous" or "Next". */
  readonly what: string;
  readonly rule?: string;
  readonly previous: readonly [key: string, command: Command];
  readonly next: readonly [key: string, command: Command];
  /** Whether a run has any. */
  readonly when: (run: Run) => boolean;
}

const JUMPS: readonly Jump[] = [
  {
    word: 'Stall',
    what: 'stall',
    rule: STALL_RULE,
    previous: ['Q', 'previousStall'],
    next: ['E', 'nextStall'],
    when: run => run.steps > 1,
  },
  {
    word: 'Critical',
    what: 'critical instruction',
    previous: ['J', 'previousCritical'],
    next: ['K', 'nextCritical'],
    when: run => run.steps > 1,
  },
  {
    word: 'Finding',
    what: 'finding',
    previous: ['P', 'previousFinding'],
    next: ['N', 'nextFinding'],
    when: run => run.findings.length > 0 || run.fault >= 0,
  },
];

/** Two buttons to go from one to the next. */
function jump({ word, what, rule, previous, next }: Jump): HTMLElement {
  const button = (label: string, [key, command]: Jump['next'], picture: 'previous' | 'next'): HTMLElement => {
    const title = `${label} (${key})${rule === undefined ? '' : `: ${rule}`}`;
    const told = { 'aria-label': label, 'aria-keyshortcuts': key, title };
    const made = el('button', { type: 'button', class: 'nki-tl-tool nki-tl-step', ...told }, icon(picture, 12));
    made.addEventListener('click', () => ask(made, command));
    return made;
  };
  return el(
    'span',
    { class: 'nki-tl-jump', role: 'group', 'aria-label': word },
    button(`Previous ${what}`, previous, 'previous'),
    el('span', { class: 'nki-tl-word', title: rule }, word),
    button(`Next ${what}`, next, 'next'),
  );
}

function tool(label: string, key: string, command: Command): HTMLButtonElement {
  const cap = el('kbd', { 'aria-hidden': 'true' }, key);
  const told = { 'aria-label': label, 'aria-keyshortcuts': key, title: `${label} (${key})` };
  const word = el('span', { class: 'nki-tl-label' }, label);
  const button = el('button', { type: 'button', class: 'nki-tl-tool', ...told }, word, cap);
  button.addEventListener('click', () => ask(button, command));
  return button;
}
