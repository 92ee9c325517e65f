/** Values of a tile at the current step. */
import { el } from '../../dom';
import type { Context, View } from '../../types';

export function createValues(context: Context): View {
  const element = el('section', { class: 'nki-panel nki-values', role: 'region', 'aria-label': 'Values' });
  void context;
  return { element, draw: () => undefined, dispose: () => undefined };
}
