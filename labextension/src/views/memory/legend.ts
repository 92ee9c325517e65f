/** What the fills of the pictures mean. */

import { el } from '../../dom';

export function createLegend(): HTMLElement {
  const items = [
    ['live', 'live, colour of its writer'],
    ['writing', 'being written'],
    ['dead', 'dead: read for the last time, not reused'],
    ['free', 'free'],
    ['over', 'over capacity'],
  ] as const;
  const entries = items.map(([kind, words]) => el('li', {}, el('i', { class: `nki-memory-key-${kind}` }), words));
  return el('ul', { class: 'nki-memory-legend' }, ...entries);
}
