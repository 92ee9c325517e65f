/** The line below the map: how much is live, dead, free, in how large pieces, and when it was most. */

import { DEFINITIONS, FIGURE_LABELS } from '../../_generated/schema';
import { el, replace } from '../../dom';
import * as format from '../../format';
import * as words from '../../words';
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
    { kind: 'live', words: `${FIGURE_LABELS.live} ${format.bytes(live)}`, title: DEFINITIONS.live },
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
    words: `${FIGURE_LABELS.dead} ${format.bytes(dead)}`,
    title: DEFINITIONS.dead,
  });
  const split = gaps.spans.length > 1;
  items.push({
    kind: 'free',
    words: `${FIGURE_LABELS.free} ${format.bytes(gaps.total)}${split ? `, largest gap ${format.bytes(gaps.largest)}` : ''}`,
    title: split
      ? `${DEFINITIONS.free} Here in ${format.plural(gaps.spans.length, 'gap')}, ` +
        `${format.percent(fragmented)} of them outside the largest.`
      : DEFINITIONS.free,
  });
  if (split && fragmented > 0 && !scene.compact) {
    items.push({
      kind: '',
      words: `${format.percent(fragmented)} ${FIGURE_LABELS.fragmented}`,
      title: DEFINITIONS.fragmented,
    });
  }
  if (scene.peak !== null) {
    items.push({
      kind: '',
      words: `${FIGURE_LABELS.peak} ${format.bytes(scene.peak.bytes)} at ${format.time(scene.peak.time)}`,
      title: words.livePeak(scene.run, scene.peak),
    });
  }
  if (scene.sbuf.reach > 0) {
    items.push({
      kind: '',
      words: `${FIGURE_LABELS.addressed} ${format.bytes(scene.sbuf.reach)}`,
      title: DEFINITIONS.addressed,
    });
  }
  return items;
}
