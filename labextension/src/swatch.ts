/** Swatches: solid is work, hatched is waiting, in the hue of the engine that works or is waited for. */
import { el } from './dom';
import type { Hue } from './types';

export function swatch(hue: Hue, look: 'solid' | 'hatch' = 'solid'): HTMLElement {
  return el('i', { class: `nki-swatch nki-${look}`, style: { '--hue': `var(--nki-${hue})` }, 'aria-hidden': 'true' });
}
