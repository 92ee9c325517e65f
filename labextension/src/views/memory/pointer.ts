/** The pointer on the pictures: hover previews, a click selects, a double click shows the whole life. */

import type { Store } from '../../types';
import type { Card } from './details';
import type { Tile } from './occupancy';
import type { Section } from './sbuf';
import type { Scene } from './scene';

/** How long the pointer rests before a card opens, in milliseconds. */
const REST = 120;
/** Room on both sides of a life that is shown whole, as a share of it. */
const MARGIN = 0.05;

export interface Pointed {
  readonly section: Section;
  /** The element that the card is placed in. */
  readonly root: HTMLElement;
  readonly store: Store;
  readonly card: Card;
  readonly scene: () => Scene | undefined;
}

/** Follow the pointer over a section. Returns what ends it. */
export function followPointer({ section, root, store, card, scene: sceneNow }: Pointed): () => void {
  let resting = 0;
  let over = -1;
  const leave = (): void => {
    window.clearTimeout(resting);
    card.hide();
    if (over >= 0) store.set({ hover: { step: -1, tile: -1 } });
    over = -1;
  };
  const rest = (tile: Tile, event: PointerEvent): void => {
    const scene = sceneNow();
    if (scene === undefined || scene.state.playing) return;
    const bounds = root.getBoundingClientRect();
    card.show(scene, tile, event.clientX - bounds.left, event.clientY - bounds.top);
  };
  const moved = (event: PointerEvent): void => {
    const tile = section.tileAt(event);
    window.clearTimeout(resting);
    section.element.classList.toggle('nki-memory-over', tile !== undefined);
    if (tile === undefined) {
      leave();
      return;
    }
    if (over !== tile.buffer.id) {
      card.hide();
      over = tile.buffer.id;
      store.set({ hover: { step: -1, tile: over } });
    }
    resting = window.setTimeout(() => rest(tile, event), REST);
  };
  const clicked = (event: MouseEvent): void => {
    if (!(event.target instanceof HTMLCanvasElement)) return;
    store.set({ tile: section.tileAt(event)?.buffer.id ?? -1 });
  };
  const doubled = (event: MouseEvent): void => {
    const tile = section.tileAt(event);
    const scene = sceneNow();
    if (tile === undefined || scene === undefined) return;
    const to = Math.min(tile.gone, scene.run.makespan);
    const margin = (to - tile.start) * MARGIN;
    store.show({ from: tile.start - margin, to: to + margin }, true);
  };
  section.element.addEventListener('pointermove', moved);
  section.element.addEventListener('pointerleave', leave);
  section.element.addEventListener('click', clicked);
  section.element.addEventListener('dblclick', doubled);
  return () => window.clearTimeout(resting);
}
