/** The live region: says what happens, at most once a second, and of several things the last. */
import { el } from './dom';

const PAUSE_MS = 1000;

export interface Live {
  readonly element: HTMLElement;
  speak(text: string): void;
  dispose(): void;
}

export function createLive(): Live {
  const element = el('div', { class: 'nki-live', 'aria-live': 'polite', role: 'status' });
  let timer = 0;
  let waiting: string | null = null;
  const say = (text: string): void => {
    element.textContent = text;
    timer = window.setTimeout(() => {
      timer = 0;
      if (waiting === null) return;
      const next = waiting;
      waiting = null;
      say(next);
    }, PAUSE_MS);
  };
  return {
    element,
    speak(text) {
      if (timer) waiting = text;
      else say(text);
    },
    dispose: () => clearTimeout(timer),
  };
}
