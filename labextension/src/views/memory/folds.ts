/** Dead tiles that are too narrow to be told apart, folded: one outline and a count for neighbours. */

import type { Label, Measure } from './labels';
import { placeLabel } from './labels';
import type { Area, Box } from './map';

/** Neighbours that are dead, drawn as one. */
export interface Fold extends Area {
  /** In order of address. */
  readonly boxes: readonly Box[];
  /** The name that all of them have without their indices; '' if they differ. */
  readonly name: string;
  readonly label: Label | null;
  /** The widest part of it over which nothing lives: where the label stands. */
  readonly clear: Area;
}

export interface Folded {
  readonly boxes: readonly Box[];
  readonly folds: readonly Fold[];
}

/** Wider dead tiles stand on their own; gaps up to this many pixels part no neighbours. */
const OWN = 24;
const JOIN = 2;

/** Fold the dead ones of `boxes`. Those in `apart` (chosen ones) stay on their own. */
export function foldDead(boxes: readonly Box[], apart: ReadonlySet<number>, measure: Measure): Folded {
  const kept: Box[] = [];
  const runs = new Map<string, Box[]>();
  const folds: Fold[] = [];
  const live = boxes.filter(box => box.phase !== 'dead').sort((a, b) => a.x - b.x);
  const close = (run: readonly Box[]): void => {
    if (run.length === 1) kept.push(...run);
    else if (run.length > 1) folds.push(foldOf(run, live, measure));
  };
  const dead = boxes.filter(box => box.phase === 'dead').sort((a, b) => a.x - b.x);
  for (const box of dead) {
    if (box.width >= OWN || apart.has(box.tile.buffer.id)) {
      kept.push(box);
      continue;
    }
    const rows = `${box.y} ${box.height}`;
    const run = runs.get(rows);
    const before = run?.at(-1);
    if (run !== undefined && before !== undefined && box.x - (before.x + before.width) <= JOIN) {
      run.push(box);
      continue;
    }
    close(run ?? []);
    runs.set(rows, [box]);
  }
  for (const run of runs.values()) close(run);
  if (folds.length === 0) return { boxes, folds };
  return { boxes: [...kept, ...boxes.filter(box => box.phase !== 'dead')], folds };
}

function foldOf(boxes: readonly Box[], live: readonly Box[], measure: Measure): Fold {
  const [first] = boxes as readonly [Box];
  const right = boxes.reduce((most, box) => Math.max(most, box.x + box.width), 0);
  const place = { x: first.x, y: first.y, width: right - first.x, height: first.height };
  const names = new Set(boxes.map(box => baseName(box.tile.buffer.name)));
  const [only = ''] = names.size === 1 ? names : [];
  const words = only === '' ? `${boxes.length} dead` : `${boxes.length} × ${only}`;
  const clear = widestClear(place, live);
  const label = placeLabel(words, only === '' ? '' : 'dead', clear, measure, true);
  return { boxes, name: only, label, clear, ...place };
}

/** The widest part of a place, over its whole height, that none of the boxes lies on; these are in order of x. */
function widestClear(place: Area, boxes: readonly Box[]): Area {
  const end = place.x + place.width;
  let [left, width, from] = [place.x, 0, place.x];
  const part = (to: number): void => {
    if (to - from > width) [left, width] = [from, to - from];
  };
  for (const box of boxes) {
    if (box.x >= end) break;
    if (box.x + box.width <= from || box.y >= place.y + place.height || box.y + box.height <= place.y) continue;
    part(box.x);
    from = box.x + box.width;
  }
  part(end);
  return { ...place, x: left, width };
}

/** A name without the index that tells it from others: "weights[3]" is "weights". */
export function baseName(name: string): string {
  return name.replace(/\[[^\]]*\]$/, '');
}

/** Base names of tiles with their numbers, the most frequent first. */
export function countsOf(boxes: readonly Box[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const { tile } of boxes) {
    const name = baseName(tile.buffer.name);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
