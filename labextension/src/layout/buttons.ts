/** The buttons in the header that fold parts, fill the screen, and put the run into a panel of its own. */
import type { Commands } from '../commands';
import { el, setAttribute } from '../dom';
import { icon, type Icon } from '../icons';
import { rove } from '../roving';
import type { State } from '../types';
import type { Part } from './parts';

interface Button {
  readonly command: 'foldTimeline' | 'foldMoment' | 'foldPanels';
  readonly part: Part;
  readonly icon: Icon;
  readonly what: string;
  readonly key: string;
}

const BUTTONS: readonly Button[] = [
  { command: 'foldTimeline', part: 'timeline', icon: 'partTop', what: 'timeline', key: '7' },
  { command: 'foldMoment', part: 'moment', icon: 'partBottom', what: 'views below the transport', key: '8' },
  { command: 'foldPanels', part: 'panels', icon: 'partRight', what: 'source, values and details', key: '9' },
];

export interface LayoutButtons {
  readonly element: HTMLElement;
  draw(state: State): void;
}

/** `dock` is null where there is no place for a panel. */
export function createLayoutButtons(
  commands: Pick<Commands, Button['command'] | 'fullScreen'>,
  dock: (() => void) | null,
): LayoutButtons {
  const make = (name: Icon, label: string, click: () => void): HTMLButtonElement =>
    el(
      'button',
      { type: 'button', class: 'nki-control', 'aria-label': label, title: label, on: { click } },
      icon(name, 16),
    );
  const folds = BUTTONS.map(button => {
    const element = make(button.icon, `Show the ${button.what} (${button.key})`, commands[button.command]);
    element.classList.add(`nki-fold-${button.part}`);
    return { ...button, element };
  });
  const full = make('full', 'Fill the screen (0)', commands.fullScreen);
  const panel = dock && make('dock', 'Open in the panel NKI', dock);
  panel?.classList.add('nki-dock');
  const element = el(
    'div',
    { class: 'nki-layout', role: 'toolbar', 'aria-label': 'Layout' },
    ...folds.map(fold => fold.element),
    full,
    panel,
  );
  rove(element, 'button');
  return {
    element,
    draw(state) {
      for (const { element: button, part, what, key } of folds) {
        const isShown = !state.away.has(part);
        setAttribute(button, 'aria-pressed', String(isShown));
        button.title = `${isShown ? 'Fold' : 'Show'} the ${what} (${key})`;
        // Without the views below, and where all of them are tabs, there is nothing apart to fold.
        button.hidden = part === 'panels' && (state.away.has('moment') || state.layout === 'narrow');
      }
      setAttribute(full, 'aria-pressed', String(state.full));
      full.title = state.full ? 'Leave the full screen (0)' : 'Fill the screen (0)';
      const isElsewhere = state.tab !== 'explore';
      for (const { element: button } of folds) button.disabled = isElsewhere;
    },
  };
}
