/** The line below the map: how much is live, dead, free, in how large pieces, and when it was most. */

import { el, replace } from '../../dom';
import * as format from '../../format';
import { phaseAt } from './occupancy';
import type { Pressure } from './pressure';
import { pressureOf } from './pressure';
import type { Scene } from './scene';

export interface PressureRow {
  readonly element: HTMLElement;
  draw(scene: Scene): void;
}

interface Item {
  /** The fill in the legend; '' for none. */
  readonly kind: '' | 'live' | 'writing' | 'dead' | 'free' | 'over';
  readonly words: string;
  readonly title: string;
}

export function createPressureRow(): PressureRow {
  const element = el('ul', { class: 'nki-memory-pressure', 'aria-label': 'Use of SBUF, per partition' });
  let known = '';
  return {
    element,
    draw(scene) {
      const items = itemsOf(scene, pressureOf(scene.sbufTiles, scene.time, scene.run.capacity.sbuf));
      const key = items.map(item => item.words).join('\n');
      if (key === known) return;
      known = key;
      replace(
        element,
        ...items.map(({ kind, words, title }) =>
          el('li', { title }, kind !== '' && el('i', { class: `nki-memory-key-${kind}` }), words),
        ),
      );
    },
  };
}

/** What the line says, in its order. */
export function itemsOf(scene: Scene, { live, dead, gaps, fragmented }: Pressure): readonly Item[] {
  const items: Item[] = [
    { kind: 'live', words: `live ${format.bytes(live)}`, title: 'In use in the fullest partition.' },
  ];
  const writing = scene.sbufTiles.filter(tile => phaseAt(tile, scene.time) === 'writing').length;
  if (writing > 0) {
    items.push({
      kind: 'writing',
      words: `${format.count(writing)} being written`,
      title: 'Tiles that are not whole yet.',
    });
  }
  items.push({
    kind: 'dead',
    words: `dead ${format.bytes(dead)}`,
    title: 'Read for the last time, and the bytes not reused, in the partition with most of them.',
  });
  const split = gaps.spans.length > 1;
  items.push({
    kind: 'free',
    words: `free ${format.bytes(gaps.total)}${split ? `, largest gap ${format.bytes(gaps.largest)}` : ''}`,
    title: split
      ? `Bytes that no tile takes in any partition, in ${format.plural(gaps.spans.length, 'gap')}; ` +
        `${format.percent(fragmented)} of them outside the largest.`
      : 'Bytes that no tile takes in any partition.',
  });
  if (split && fragmented > 0 && !scene.compact) {
    items.push({
      kind: '',
      words: `${format.percent(fragmented)} fragmented`,
      title: 'The share of the free bytes outside the largest gap.',
    });
  }
  if (scene.peak !== null) {
    items.push({
      kind: '',
      words: `high-water ${format.bytes(scene.peak.bytes)} at ${format.time(scene.peak.time)}`,
      title: 'The most bytes in use at one time in the fullest partition.',
    });
  }
  return items;
}
