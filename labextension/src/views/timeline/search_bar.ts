/** The search of the timeline: a line under its header while there is one. */
import { ask, type Command } from '../../commands';
import { el, setAttribute, setText, uniqueId } from '../../dom';
import { HELP, SYNTAX } from '../../filter';
import * as format from '../../format';
import { icon } from '../../icons';
import type { Context, Run, State } from '../../types';

export interface SearchBar {
  readonly element: HTMLElement;
  draw(run: Run, state: State): void;
  /** Put the keyboard into it. */
  focus(): void;
}

/** `leave` takes the focus when it closes. */
export function createSearchBar(context: Context, leave: () => void): SearchBar {
  const { store } = context;
  const close = (): void => {
    store.set({ searching: false, query: '' });
    leave();
  };
  const countId = uniqueId('found');
  const input = el('input', {
    type: 'search',
    class: 'nki-filter nki-tl-query',
    placeholder: SYNTAX,
    'aria-label': 'Search the timeline',
    'aria-describedby': countId,
    title: HELP,
    spellcheck: 'false',
    autocomplete: 'off',
    on: { input: () => store.set({ query: input.value }), keydown: event => keyIn(event) },
  });
  const keyIn = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' && event.key !== 'Escape') return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === 'Enter') ask(input, event.shiftKey ? 'previousMatch' : 'nextMatch');
    else if (input.value === '') close();
    else store.set({ query: '' });
  };
  const count = el('span', { class: 'nki-tl-found', role: 'status', id: countId });
  const element = el(
    'div',
    { class: 'nki-tl-search', hidden: true, role: 'search' },
    el('label', { class: 'nki-tl-query-box' }, icon('search', 13), input),
    count,
    step('Previous match', 'G', 'previousMatch', 'previous'),
    step('Next match', 'H', 'nextMatch', 'next'),
    el(
      'button',
      {
        type: 'button',
        class: 'nki-tl-tool nki-tl-close',
        'aria-label': 'End the search',
        title: 'End the search (Esc)',
        on: { click: close },
      },
      icon('close', 12),
    ),
  );
  return {
    element,
    draw(run, state) {
      element.hidden = !isOpen(state);
      if (input.value !== state.query) input.value = state.query;
      const problem = state.found?.problem ?? '';
      setAttribute(input, 'aria-invalid', problem !== '' ? 'true' : null);
      element.classList.toggle('nki-tl-problem', problem !== '');
      setText(count, countText(run, state));
    },
    focus() {
      element.hidden = false;
      input.focus();
      input.select();
    },
  };
}

/** Whether there is a search to be seen. */
export function isOpen(state: Pick<State, 'searching' | 'query'>): boolean {
  return state.searching || state.query !== '';
}

/** "14 of 394"; why there is none; nothing while nothing is asked. */
function countText(run: Run, { found, query }: State): string {
  if (query === '' || found === null) return '';
  if (found.problem !== '') return found.problem;
  if (found.progress < 1) return `Searching, ${format.percent(found.progress)}`;
  const loaded = run.rows.count < run.steps ? ' loaded' : '';
  return `${format.count(found.steps.length)} of ${format.count(run.rows.count)}${loaded}`;
}

function step(label: string, key: string, command: Command, picture: 'previous' | 'next'): HTMLElement {
  const told = { 'aria-label': label, 'aria-keyshortcuts': key, title: `${label} (${key})` };
  const button = el('button', { type: 'button', class: 'nki-tl-tool nki-tl-step', ...told }, icon(picture, 12));
  button.addEventListener('click', () => ask(button, command));
  return button;
}
