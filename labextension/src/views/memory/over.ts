/** What lies beyond the end of SBUF, in words. */

import { el, replace } from '../../dom';
import * as format from '../../format';
import type { Finding } from '../../types';
import type { Frame } from './ground';
import { phaseAt } from './occupancy';
import type { Scene } from './scene';

/** What lies beyond the memory now, in words with the code of the finding. */
export function showCallout(callout: HTMLElement, scene: Scene, frame: Frame, open: (finding: Finding) => void): void {
  const words = overWords(scene);
  callout.hidden = words === null;
  if (words === null) return;
  const link = (finding: Finding): HTMLElement =>
    el('button', { type: 'button', class: 'nki-memory-code', on: { click: () => open(finding) } }, finding.code);
  const text = el('span', {}, `${words.what} `, scene.overflow !== undefined && link(scene.overflow));
  const key = `${words.title} ${words.what}`;
  if (callout.dataset.words !== key) {
    callout.dataset.words = key;
    replace(callout, el('b', {}, words.title), text);
  }
  callout.style.top = `${frame.area.y + frame.area.height * 0.36}px`;
}

/** "12 KiB over" and what it is that is; null where all fits. */
export function overWords(scene: Scene): { title: string; what: string } | null {
  const { sbuf: capacity } = scene.run.capacity;
  const over = scene.sbufTiles.filter(tile => tile.high > capacity && phaseAt(tile, scene.time) !== 'dead');
  const first = over[0];
  if (first === undefined) return null;
  const most = over.reduce((high, tile) => Math.max(high, tile.high), 0);
  const others = over.length > 1 ? ` and ${over.length - 1} more` : '';
  const name = first.buffer.name;
  const ends = `${name}${others} ${over.length > 1 ? 'end' : 'ends'} at ${format.bytesOf(most, capacity)}`;
  return {
    title: `${format.bytes(most - capacity)} over`,
    what: first.placed ? ends : `${name}${others} found no room in ${format.bytes(capacity)}`,
  };
}
