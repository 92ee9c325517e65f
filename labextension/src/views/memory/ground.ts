/** What lies around the tiles of the map: axes, capacity, the strip that keeps the true scale, classes, gaps. */

import * as format from '../../format';
import type { Brush } from './brush';
import { paintAxisText, paintLine } from './brush';
import type { PartitionClass } from './classes';
import type { Area, Gaps } from './map';
import { byteTicks, partitionTicks, xOf, yOf } from './map';
import { phaseAt } from './occupancy';
import type { Shown } from './ranges';
import { shareOf } from './ranges';
import type { Scene } from './scene';
import { AXIS_SIZE } from './scene';

export interface Sizes {
  readonly plot: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Where the map stands at this width. */
export interface Frame {
  readonly sizes: Sizes;
  readonly area: Area;
  readonly shown: Shown;
  readonly capacity: number;
}

const STRIP = 7;
/** With more tiles than this the strip shows how full its pixels are. */
const STRIP_TILES = 2000;

export function paintGround(brush: Brush, frame: Frame): void {
  const { context, scene } = brush;
  const { area, shown } = frame;
  const { palette } = scene;
  context.fillStyle = palette.sunk;
  context.fillRect(area.x, area.y, area.width, area.height);
  const ticks = byteTicks(shown.bytes, area.width);
  const under = area.y + area.height + 11;
  for (const value of ticks.values) {
    const x = xOf(value, shown.bytes, area);
    paintLine(context, palette.line, [x, area.y], [x, area.y + area.height]);
    const text = scene.hex ? format.address(value) : ticks.label(value);
    // The last one stays within the canvas.
    const half = AXIS_SIZE * 0.32 * text.length;
    paintAxisText(brush, text, Math.min(x, area.x + area.width + frame.sizes.right - half - 1), under);
  }
  if (!scene.hex) paintAxisText(brush, ticks.unit, area.x - 10, under, 'right');
  for (const partition of partitionTicks(shown.rows, area.height)) {
    const y = yOf(partition, shown.rows, area);
    const within = Math.min(Math.max(y, area.y + 4), area.y + area.height - 4);
    paintAxisText(brush, String(partition), area.x - 8, within, 'right');
  }
}

/** The end of the memory, where it is in sight. */
export function paintCapacity({ context, scene }: Brush, { area, shown, capacity }: Frame): void {
  const share = shareOf(shown.bytes, capacity);
  if (share >= 1 || share < 0) return;
  const x = xOf(capacity, shown.bytes, area);
  paintLine(context, scene.palette.error, [x, area.y - 12], [x, area.y + area.height + 4], 2);
}

/** All of the memory to scale: what is shown of it, or the tiles, and how far addresses ever went. */
export function paintStrip(brush: Brush, frame: Frame): void {
  const { context, scene } = brush;
  const { area, shown, capacity } = frame;
  const { palette, sbuf } = scene;
  const y = frame.sizes.top - STRIP - 7;
  const whole = { from: 0, to: Math.max(sbuf.reach, capacity, shown.bytes.to) };
  context.fillStyle = palette.hoverGround;
  context.fillRect(area.x, y, area.width, STRIP);
  const cropped = shown.bytes.from > 0 || shown.bytes.to < capacity;
  if (cropped) {
    const left = xOf(shown.bytes.from, whole, area);
    context.fillStyle = palette.ink;
    context.beginPath();
    context.roundRect(left, y, Math.max(3, xOf(shown.bytes.to, whole, area) - left), STRIP, 2);
    context.fill();
  } else paintStripTiles(brush, area, y, whole.to);
  const over = sbuf.reach > capacity;
  const mark = xOf(Math.max(sbuf.highWater.bytes, over ? sbuf.reach : 0), whole, area);
  paintLine(context, over ? palette.error : palette.ink2, [mark, y - 3], [mark, y + STRIP + 3], over ? 2 : 1);
  if (scene.compact) return;
  const words = `addresses up to ${format.bytes(sbuf.highWater.bytes)} at ${format.time(sbuf.highWater.time)}`;
  const right = mark - area.x > 220;
  paintAxisText(brush, words, mark + (right ? 4 : -4), y - 12, right ? 'right' : 'left');
}

function paintStripTiles({ context, scene }: Brush, area: Area, y: number, whole: number): void {
  const scale = area.width / whole;
  for (const tile of scene.sbufTiles.slice(0, STRIP_TILES)) {
    context.globalAlpha = phaseAt(tile, scene.time) === 'dead' ? 0.3 : 1;
    context.fillStyle = scene.painter(tile, scene.time).ground;
    context.fillRect(area.x + tile.low * scale, y, Math.max(1, (tile.high - tile.low) * scale - 1), STRIP);
  }
  context.globalAlpha = 1;
}

/** Brackets of the classes, left of the numbers of partitions. */
export function paintClasses({ context, scene }: Brush, { area, shown }: Frame): void {
  if (scene.classes.length < 2) return;
  const x = area.x - 34;
  const chosen = scene.classes[scene.part] ?? scene.classes[0];
  for (const one of scene.classes) {
    if (one.from >= shown.rows.to || one.to <= shown.rows.from) continue;
    const [top, bottom] = bounds(one, shown, area);
    const colour = one === chosen ? scene.palette.ink : scene.palette.line2;
    paintLine(context, colour, [x, top], [x, bottom], one === chosen ? 2 : 1);
    paintLine(context, colour, [x, top], [x + 4, top]);
    paintLine(context, colour, [x, bottom], [x + 4, bottom]);
  }
}

function bounds(one: PartitionClass, { rows }: Shown, area: Area): [number, number] {
  return [yOf(one.from, rows, area) + 1, yOf(one.to, rows, area) - 1];
}

/** Brackets under what is free, and how much that is. */
export function paintGaps(brush: Brush, { area, shown }: Frame, gaps: Gaps): void {
  const { context, scene } = brush;
  const y = area.y + area.height + 20;
  for (const [low, high] of gaps.spans) {
    const left = xOf(low, shown.bytes, area) + 1;
    const right = xOf(high, shown.bytes, area) - 1;
    if (right - left < 2) continue;
    for (const x of [left, right]) paintLine(context, scene.palette.ink3, [x, y], [x, y + 4]);
    paintLine(context, scene.palette.ink3, [left, y + 4], [right, y + 4]);
  }
  paintAxisText(brush, gapWords(scene, gaps), area.x + area.width, y + 15, 'right');
}

export function gapWords(scene: Pick<Scene, 'classes'>, gaps: Gaps): string {
  const where = scene.classes.length > 1 ? 'free in all partitions' : 'free';
  if (gaps.spans.length === 0) return `${where}: nothing`;
  const count = gaps.spans.length;
  const largest = count > 1 ? `, largest ${format.bytes(gaps.largest)}` : '';
  return `${where}: ${format.bytes(gaps.total)} in ${format.plural(count, 'gap')}${largest}`;
}
