/** The map of SBUF at the cursor's time: capacity strip, tiles, free gaps. */

import { MEMORY_LABELS } from '../../_generated/schema';
import { el, replace, setText } from '../../dom';
import * as format from '../../format';
import { createSurface } from '../../canvas/surface';
import type { Brush } from './brush';
import {
  paintAxisText,
  paintBeyond,
  paintDead,
  paintLabel,
  paintLine,
  paintLive,
  paintOutline,
  paintWriting,
} from './brush';
import type { PartitionClass } from './classes';
import type { Area, Box, Gaps } from './map';
import { boxAt, byteTicks, fullest, fullRange, gapsOf, layoutMap, partitionTicks, usedRange } from './map';
import type { Phase, Tile } from './occupancy';
import { phaseAt } from './occupancy';
import type { Finding } from '../../types';
import type { Scene } from './scene';
import { AXIS_SIZE, measureOf } from './scene';
import { describe } from './table';

/** A part of the view with a picture of tiles. */
export interface Section {
  readonly element: HTMLElement;
  draw(scene: Scene): void;
  /** Say on the picture what it shows. */
  describe(scene: Scene): void;
  /** The tile at a point of the page. */
  tileAt(event: MouseEvent): Tile | undefined;
}

/** Heights in CSS pixels, and the gutters beside the plot. */
const SIZES = {
  compact: { plot: 130, left: 38, right: 8, top: 18, bottom: 18 },
  full: { plot: 236, left: 56, right: 12, top: 34, bottom: 48 },
} as const;
const STRIP = 7;

type Sizes = (typeof SIZES)[keyof typeof SIZES];

/** Where the map stands at this width. */
interface Frame {
  readonly sizes: Sizes;
  readonly area: Area;
  readonly shown: number;
  readonly capacity: number;
}

/** `open` is called with the finding that the memory is too small. */
export function createSbuf(open: (finding: Finding) => void): Section {
  const surface = createSurface();
  const words = el('span', { class: 'nki-memory-words' });
  const none = el('p', { class: 'nki-memory-none' });
  const callout = el('div', { class: 'nki-memory-callout' });
  const plot = el('div', { class: 'nki-memory-plot' }, surface.element, callout);
  const caption = el('div', { class: 'nki-memory-caption' }, el('b', {}, MEMORY_LABELS.sbuf), words);
  const element = el('div', { class: 'nki-memory-sbuf' }, caption, plot, none, legend());
  let boxes: readonly Box[] = [];

  return {
    element,
    draw(scene) {
      const missing = missingWords(scene);
      plot.hidden = missing !== '';
      none.hidden = missing === '';
      setText(none, missing);
      const frame = frameOf(scene, plot.clientWidth);
      setText(words, captionOf(scene, frame.shown));
      if (missing !== '' || frame.area.width < 40) {
        boxes = [];
        return;
      }
      surface.resize(plot.clientWidth, frame.sizes.top + frame.sizes.plot + frame.sizes.bottom);
      surface.clear();
      const brush = { context: surface.context, scene };
      boxes = layoutMap({
        tiles: scene.sbufTiles,
        time: scene.state.time,
        partitions: scene.run.capacity.partitions,
        shown: frame.shown,
        area: frame.area,
        share: (tile, time) => scene.usage.written(tile, time),
        measure: measureOf(surface.context, scene.palette),
        second: (tile, phase, share) => secondLine(scene, tile, phase, share),
      });
      paintGround(brush, frame);
      for (const box of boxes) paintBox(brush, frame, box);
      paintCapacity(brush, frame);
      for (const box of boxes) paintOutline(brush, box.tile, box);
      paintStrip(brush, frame);
      if (!scene.compact) {
        paintClasses(brush, frame);
        paintGaps(brush, frame, gapsOf(scene.sbufTiles, frame.capacity));
      }
      showCallout(callout, scene, frame, open);
    },
    describe(scene) {
      describe(surface.element, MEMORY_LABELS.sbuf, captionOf(scene, shownBytes(scene)), scene, scene.sbufTiles);
    },
    tileAt(event) {
      const bounds = surface.element.getBoundingClientRect();
      return boxAt(boxes, event.clientX - bounds.left, event.clientY - bounds.top)?.tile;
    },
  };
}

/** The right edge of the map and of the lifetimes, in bytes. */
export function shownBytes(scene: Scene): number {
  const capacity = scene.run.capacity.sbuf;
  return scene.state.usedRange ? usedRange(scene.sbuf.reach, capacity) : fullRange(scene.sbuf.reach, capacity);
}

function frameOf(scene: Scene, width: number): Frame {
  const sizes = scene.compact ? SIZES.compact : SIZES.full;
  const area = { x: sizes.left, y: sizes.top, width: width - sizes.left - sizes.right, height: sizes.plot };
  return { sizes, area, shown: shownBytes(scene), capacity: scene.run.capacity.sbuf };
}

/** Why there is no map; '' if there is one. */
export function missingWords(scene: Scene): string {
  const { sbuf } = scene;
  if (sbuf.tiles.length > 0) return '';
  if (sbuf.homeless.length === 0) return 'No tile of this run is in SBUF.';
  const tiles = format.plural(sbuf.homeless.length, 'tile');
  return `No addresses: the run has ${tiles} in SBUF and does not say where.`;
}

/** The words beside "SBUF". */
export function captionOf(scene: Scene, shown: number): string {
  const { run, sbufTiles, sbuf, state } = scene;
  const { sbuf: capacity, partitions } = run.capacity;
  if (sbuf.tiles.length === 0) return `${partitions} partitions × ${format.bytes(capacity)}`;
  const free = gapsOf(sbufTiles, capacity).total;
  const cropped = shown < capacity ? `shown: 0–${format.bytesOf(shown, capacity)}` : '';
  const parts = scene.compact
    ? [
        cropped === '' ? `${partitions} × ${format.bytes(capacity)}` : cropped,
        `${format.percent(free / capacity)} free`,
      ]
    : [
        `${partitions} partitions × ${format.bytes(capacity)}`,
        `${format.bytes(fullest(sbufTiles, state.time, false))} in use`,
        `${format.bytes(fullest(sbufTiles, state.time, true))} dead`,
        cropped,
      ];
  if (sbuf.homeless.length > 0) parts.push(`${format.plural(sbuf.homeless.length, 'tile')} without room`);
  return parts.filter(part => part !== '').join(' · ');
}

function secondLine(scene: Scene, tile: Tile, phase: Phase, share: number): string {
  if (scene.compact) return '';
  if (phase === 'writing') return format.percent(share);
  if (phase === 'dead') return 'dead';
  return scene.hex && tile.placed ? format.address(tile.low) : format.bytes(tile.high - tile.low);
}

function paintGround(brush: Brush, frame: Frame): void {
  const { context, scene } = brush;
  const { area, shown } = frame;
  const { palette, run } = scene;
  const { partitions } = run.capacity;
  context.fillStyle = palette.sunk;
  context.fillRect(area.x, area.y, area.width, area.height);
  const ticks = byteTicks(shown, area.width);
  const under = area.y + area.height + 11;
  for (const value of ticks.values) {
    const x = area.x + (value / shown) * area.width;
    paintLine(context, palette.line, [x, area.y], [x, area.y + area.height]);
    const text = scene.hex ? format.address(value) : ticks.label(value);
    // The last one stays within the canvas.
    const half = AXIS_SIZE * 0.32 * text.length;
    paintAxisText(brush, text, Math.min(x, area.x + area.width + frame.sizes.right - half - 1), under);
  }
  if (!scene.hex) paintAxisText(brush, ticks.unit, area.x - 8, under, 'right');
  const heights = partitionTicks(partitions, area.height);
  for (const partition of heights) {
    const last = partition === partitions - 1;
    const y = area.y + (last ? area.height - 4 : partition === 0 ? 4 : (partition / partitions) * area.height);
    paintAxisText(brush, String(partition), area.x - 8, y, 'right');
  }
}

function paintBox(brush: Brush, frame: Frame, box: Box): void {
  const { tile, phase } = box;
  const strong = brush.scene.strong.has(tile.buffer.id);
  if (phase === 'dead') paintDead(brush, tile, box);
  else if (phase === 'live') paintLive(brush, tile, box);
  else paintWriting(brush, tile, box, box.share);
  const edge = frame.area.x + (frame.capacity / frame.shown) * frame.area.width;
  const over = box.x + box.width - Math.max(box.x, edge);
  if (over > 0) paintBeyond(brush, { ...box, x: box.x + box.width - over, width: over });
  const hatched = phase === 'writing' || over > 0;
  paintLabel(brush, box.label, box, tile, hatched ? 'hatch' : phase === 'dead' ? 'none' : strong ? 'solid' : 'tint');
}

/** The end of the memory, where it is in sight. */
function paintCapacity({ context, scene }: Brush, { area, shown, capacity }: Frame): void {
  if (shown <= capacity) return;
  const x = area.x + (capacity / shown) * area.width;
  paintLine(context, scene.palette.error, [x, area.y - 12], [x, area.y + area.height + 4], 2);
}

/** All of the memory to scale: what is shown of it, or the tiles, and the high-water mark. */
function paintStrip(brush: Brush, frame: Frame): void {
  const { context, scene } = brush;
  const { area, shown, capacity } = frame;
  const { palette, sbuf } = scene;
  const y = frame.sizes.top - STRIP - 7;
  const whole = Math.max(shown, capacity);
  const x = (bytes: number): number => area.x + (bytes / whole) * area.width;
  context.fillStyle = palette.hoverGround;
  context.fillRect(area.x, y, area.width, STRIP);
  if (shown < capacity) {
    context.fillStyle = palette.ink;
    context.beginPath();
    context.roundRect(area.x, y, Math.max(3, x(shown) - area.x), STRIP, 2);
    context.fill();
  } else {
    for (const tile of scene.sbufTiles) {
      context.globalAlpha = phaseAt(tile, scene.state.time) === 'dead' ? 0.3 : 1;
      context.fillStyle = scene.painter(tile, scene.state.time).ground;
      context.fillRect(x(tile.low), y, Math.max(1, x(tile.high) - x(tile.low) - 1), STRIP);
    }
    context.globalAlpha = 1;
  }
  const over = sbuf.reach > capacity;
  const mark = x(Math.max(sbuf.highWater.bytes, over ? sbuf.reach : 0));
  paintLine(context, over ? palette.error : palette.ink2, [mark, y - 3], [mark, y + STRIP + 3], over ? 2 : 1);
  if (scene.compact) return;
  const words = `high-water ${format.bytes(sbuf.highWater.bytes)} at ${format.time(sbuf.highWater.time)}`;
  const right = mark - area.x > 200;
  paintAxisText(brush, words, mark + (right ? 4 : -4), y - 12, right ? 'right' : 'left');
}

/** Brackets of the classes, left of the numbers of partitions. */
function paintClasses(brush: Brush, { area }: Frame): void {
  const { context, scene } = brush;
  if (scene.classes.length < 2) return;
  const { partitions } = scene.run.capacity;
  const x = area.x - 38;
  for (const one of scene.classes) {
    const [top, bottom] = bounds(one, partitions, area);
    const { line2, ink2 } = scene.palette;
    paintLine(context, line2, [x, top], [x, bottom]);
    paintLine(context, line2, [x, top], [x + 4, top]);
    paintLine(context, line2, [x, bottom], [x + 4, bottom]);
    if (bottom - top < 14) continue;
    context.fillStyle = scene.palette.bg;
    context.fillRect(x - 6, (top + bottom) / 2 - 8, 12, 16);
    context.font = `600 10px ${scene.palette.uiFont}`;
    context.fillStyle = ink2;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(one.letter, x, (top + bottom) / 2);
  }
}

function bounds(one: PartitionClass, partitions: number, area: Area): [number, number] {
  const y = (partition: number): number => area.y + (partition / partitions) * area.height;
  return [y(one.from) + 1, y(one.to) - 1];
}

/** Brackets under what is free, and how much that is. */
function paintGaps(brush: Brush, { area, shown }: Frame, gaps: Gaps): void {
  const { context, scene } = brush;
  const y = area.y + area.height + 20;
  for (const [low, high] of gaps.spans) {
    const left = area.x + (low / shown) * area.width + 1;
    const right = area.x + Math.min(1, high / shown) * area.width - 1;
    if (right - left < 2) continue;
    for (const x of [left, right]) paintLine(context, scene.palette.ink3, [x, y], [x, y + 4]);
    paintLine(context, scene.palette.ink3, [left, y + 4], [right, y + 4]);
  }
  paintAxisText(brush, gapWords(scene, gaps), area.x + area.width, y + 15, 'right');
}

export function gapWords(scene: Scene, gaps: Gaps): string {
  const where = scene.classes.length > 1 ? 'free in all classes' : 'free';
  if (gaps.spans.length === 0) return `${where}: nothing`;
  const count = gaps.spans.length;
  const largest = count > 1 ? `, largest ${format.bytes(gaps.largest)}` : '';
  return `${where}: ${format.bytes(gaps.total)} in ${format.plural(count, 'gap')}${largest}`;
}

/** What lies beyond the memory now, in words with the code of the finding. */
function showCallout(callout: HTMLElement, scene: Scene, frame: Frame, open: (finding: Finding) => void): void {
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
  const over = scene.sbufTiles.filter(tile => tile.high > capacity && phaseAt(tile, scene.state.time) !== 'dead');
  const first = over[0];
  if (first === undefined) return null;
  const most = Math.max(...over.map(tile => tile.high));
  const others = over.length > 1 ? ` and ${over.length - 1} more` : '';
  const name = first.buffer.name;
  const ends = `${name}${others} ${over.length > 1 ? 'end' : 'ends'} at ${format.bytesOf(most, capacity)}`;
  return {
    title: `${format.bytes(most - capacity)} over`,
    what: first.placed ? ends : `${name}${others} found no room in ${format.bytes(capacity)}`,
  };
}

function legend(): HTMLElement {
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
