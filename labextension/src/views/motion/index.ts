/** The current instruction: what it reads, where that lies, and what it writes. */
import { el } from '../../dom';
import type { Context, View } from '../../types';

export function createMotion(context: Context): View {
  const element = el(
    'section',
    { class: 'nki-panel nki-motion', role: 'region', 'aria-label': 'Motion' },
    el('div', { class: 'nki-panel-head' }, el('h3', {}, 'Motion')),
  );
  void context;
  return { element, draw: () => undefined, dispose: () => undefined };
}
