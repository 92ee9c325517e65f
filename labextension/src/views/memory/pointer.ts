/** The pointer on the pictures: hover previews, a click selects, a double click shows the whole life. */

import type { Store } from '../../types';
import type { Card } from './details';
import type { Scene } from './scene';
import type { Section, Spot } from './section';

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
  /** Whether the last press was a drag. */
  readonly dragged: () => boolean;
  /** A place was clicked. */
  readonly chosen: (spot: Spot) => void;
  /** A place without a tile was clicked twice. */
  readonly cleared: () => void;
}

/** Follow the pointer over a section. Returns what ends it. */
export function followPointer(pointed: Pointed): () => void {
  const { section, root, store, card, scene: sceneNow } = pointed;
  let resting = 0;
  let over = -1;
  const leave = (): void => {
    window.clearTimeout(resting);
    card.hide();
    if (over >= 0) store.set({ hover: { step: -1, tile: -1 } });
    over = -1;
  };
  const rest = (spot: Spot, event: PointerEvent): void => {
    const scene = sceneNow();
    if (scene === undefined || scene.state.playing) return;
    const bounds = root.getBoundingClientRect();
    card.show(scene, spot, event.clientX - bounds.left, event.clientY - bounds.top);
  };
  const moved = (event: PointerEvent): void => {
    window.clearTimeout(resting);
    if (event.buttons !== 0 || !isPicture(event)) {
      leave();
      return;
    }
    const spot = section.spotAt(event);
    const tile = spot?.tile;
    section.element.classList.toggle('nki-memory-over', tile !== undefined || spot?.fold !== undefined);
    if (spot === undefined || (tile === undefined && spot.fold === undefined)) {
      leave();
      return;
    }
    const id = tile?.buffer.id ?? -1;
    if (over !== id || id < 0) {
      card.hide();
      if (over !== id) store.set({ hover: { step: -1, tile: id } });
      over = id;
    }
    resting = window.setTimeout(() => rest(spot, event), REST);
  };
  const clicked = (event: MouseEvent): void => {
    if (!isPicture(event) || pointed.dragged()) return;
    const spot = section.spotAt(event);
    if (spot === undefined) store.set({ tile: -1 });
    else pointed.chosen(spot);
  };
  const doubled = (event: MouseEvent): void => {
    if (!isPicture(event)) return;
    const tile = section.spotAt(event)?.tile;
    const scene = sceneNow();
    if (tile === undefined || scene === undefined) {
      pointed.cleared();
      return;
    }
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

/** Whether an event is on a picture: on a canvas, or on the focus that lies over it. */
function isPicture(event: MouseEvent): boolean {
  const { target } = event;
  return target instanceof HTMLCanvasElement || (target instanceof Element && target.matches('.nki-memory-focus'));
}
