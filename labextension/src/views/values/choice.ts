/** Choices of one among a few, as buttons of which one is pressed. */
import { el, setAttribute } from '../../dom';
import { rove } from '../../roving';

export interface Choice<T extends string> {
  readonly element: HTMLElement;
  draw(chosen: T): void;
  /** Take an option away, or bring it back. */
  allow(option: T, isAllowed: boolean, why?: string): void;
}

export function createChoice<T extends string>(
  label: string,
  options: readonly (readonly [T, string])[],
  choose: (chosen: T) => void,
): Choice<T> {
  const buttons = new Map<T, HTMLButtonElement>(
    options.map(([option, text]) => [
      option,
      el('button', { type: 'button', role: 'radio', on: { click: () => choose(option) } }, text),
    ]),
  );
  const element = el(
    'div',
    { class: 'nki-values-choice', role: 'radiogroup', 'aria-label': label },
    ...buttons.values(),
  );
  rove(element, 'button');
  return {
    element,
    draw(chosen) {
      for (const [option, button] of buttons) setAttribute(button, 'aria-checked', String(option === chosen));
    },
    allow(option, isAllowed, why = '') {
      const button = buttons.get(option);
      if (button === undefined) return;
      button.disabled = !isAllowed;
      setAttribute(button, 'title', isAllowed ? null : why);
    },
  };
}
