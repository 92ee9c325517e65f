/** How tiles are painted: solid is there, hatched is on its way, dashed is dead, crimson does not fit. */

import { hatch } from '../../canvas/hatch';
import type { Fold } from './folds';
import type { Label } from './labels';
import type { Area } from './map';
import type { Tile } from './occupancy';
import { axisFont, labelFont } from './scene';
import type { Scene } from './scene';

/** How much of its colour a tile has that the current instruction does not touch, and a part not yet written. */
const TINT = { light: 0.4, dark: 0.36 };
const PALE = { light: 0.17, dark: 0.17 };
const RADIUS = 1.5;
const NARROW = 8;
/** Outlines of smaller boxes are fine lines, which leave room for what lies beside. */
const SLIM = 7;
/** Room between two lines of a label. */
const LEADING = 13;
/** From the corner of a box to its label. */
const CORNER = 6;

export interface Brush {
  readonly context: CanvasRenderingContext2D;
  readonly scene: Scene;
}

/** Live contents. */
export function paintLive({ context, scene }: Brush, tile: Tile, area: Area): void {
  context.globalAlpha = scene.strong.has(tile.buffer.id) ? 1 : TINT[scene.palette.theme];
  context.fillStyle = scene.painter(tile, scene.time).ground;
  fillRound(context, area);
  context.globalAlpha = 1;
}

/** What is there of something that is not complete. */
export function paintTint({ context, scene }: Brush, tile: Tile, area: Area): void {
  context.globalAlpha = TINT[scene.palette.theme];
  context.fillStyle = scene.painter(tile, scene.time).ground;
  fillRound(context, area);
  context.globalAlpha = 1;
}

/** What is still to be written. */
export function paintPale({ context, scene }: Brush, tile: Tile, area: Area): void {
  context.globalAlpha = PALE[scene.palette.theme];
  context.fillStyle = scene.painter(tile, scene.time).ground;
  fillRound(context, area);
  context.globalAlpha = 1;
}

/** What is being written: hatched as far as it is there. `share` runs along x. */
export function paintWriting(brush: Brush, tile: Tile, area: Area, share: number): void {
  const { context, scene } = brush;
  const { ground } = scene.painter(tile, scene.time);
  paintPale(brush, tile, area);
  const written = { ...area, width: area.width * share };
  if (written.width < 0.5) return;
  paintPale(brush, tile, written);
  context.fillStyle = area.width < 5 ? ground : hatch(context, ground, 45);
  context.fillRect(written.x, written.y, written.width, written.height);
}

/** Dead contents. The dashes of edges that two dead neighbours share lie on each other. */
export function paintDead({ context, scene }: Brush, tile: Tile, area: Area): void {
  const [left, top, right, bottom] = [
    area.x + 0.5,
    area.y + 0.5,
    area.x + area.width - 0.5,
    area.y + area.height - 0.5,
  ];
  if (area.width >= 3 && area.height >= 3) {
    context.fillStyle = scene.palette.bg;
    context.fillRect(area.x, area.y, area.width, area.height);
  }
  context.strokeStyle = scene.painter(tile, scene.time).ground;
  context.lineWidth = 1;
  // Many narrow ones side by side would outshine what is alive.
  const alpha = context.globalAlpha;
  if (Math.min(area.width, area.height) < NARROW) context.globalAlpha = alpha * 0.6;
  context.setLineDash([3, 2]);
  context.beginPath();
  for (const y of area.height < 3 ? [area.y + area.height / 2] : [top, bottom]) {
    context.moveTo(left, y);
    context.lineTo(right, y);
  }
  for (const x of area.width < 3 ? [area.x + area.width / 2] : [left, right]) {
    context.moveTo(x, top);
    context.lineTo(x, bottom);
  }
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = alpha;
}

/** Dead neighbours as one outline, in the colour of their writer if that is one. */
export function paintFold(brush: Brush, fold: Fold): void {
  const { context, scene } = brush;
  const colours = new Set(fold.boxes.map(box => scene.painter(box.tile, scene.time).ground));
  const [only = ''] = colours.size === 1 ? colours : [];
  context.fillStyle = scene.palette.bg;
  context.fillRect(fold.x, fold.y, fold.width, fold.height);
  context.strokeStyle = only === '' ? scene.palette.ink3 : only;
  context.lineWidth = 1;
  context.setLineDash([3, 2]);
  context.strokeRect(fold.x + 0.5, fold.y + 0.5, Math.max(1, fold.width - 1), Math.max(1, fold.height - 1));
  context.setLineDash([]);
  const [first] = fold.boxes;
  if (first !== undefined) paintLabel(brush, fold.label, fold.clear, first.tile, 'none');
}

/** What lies where no memory is. */
export function paintBeyond({ context, scene }: Brush, area: Area): void {
  context.fillStyle = hatch(context, scene.palette.error, 135);
  context.fillRect(area.x, area.y, area.width, area.height);
}

/** Outlines of what is chosen, and of what the pointer's twin is. */
export function paintOutline({ context, scene }: Brush, tile: Tile, area: Area): void {
  const { id } = tile.buffer;
  if (scene.outlined.has(id) && Math.min(area.width, area.height) < SLIM) {
    strokeRound(context, area, 1, 1.2, scene.palette.ink);
  } else if (scene.outlined.has(id)) {
    strokeRound(context, area, 0.5, 1, scene.palette.bg);
    strokeRound(context, area, 1.9, 1.8, scene.palette.ink);
  } else if (scene.twins.has(id)) {
    strokeRound(context, area, 0.5, 1, scene.palette.ink);
  }
}

export type Ground = 'solid' | 'tint' | 'hatch' | 'none';

/** The label of a box, in its middle or in its upper left corner. `ground` is what lies under it. */
export function paintLabel(
  brush: Brush,
  label: Label | null,
  area: Area,
  tile: Tile,
  ground: Ground,
  corner = false,
): void {
  if (label === null) return;
  const { context, scene } = brush;
  const { palette } = scene;
  const lines = label.second === '' ? [label.text] : [label.text, label.second];
  const aside = corner && !label.turned;
  const middle = Math.min(area.height / 2, (lines.length * LEADING) / 2 + CORNER - 2);
  context.save();
  context.translate(area.x + (aside ? CORNER : area.width / 2), area.y + (aside ? middle : area.height / 2));
  if (label.turned) context.rotate(-Math.PI / 2);
  context.textAlign = aside ? 'left' : 'center';
  context.textBaseline = 'middle';
  if (ground === 'hatch') plate(brush, lines, label.turned ? area.height : area.width, aside);
  const solid = ground === 'solid' ? scene.painter(tile, scene.time).label : '';
  lines.forEach((text, place) => {
    context.font = place === 0 ? labelFont(palette) : axisFont(palette);
    const ink = ground === 'none' ? palette.ink3 : place > 0 ? palette.ink2 : palette.ink;
    context.fillStyle = solid || ink;
    context.fillText(text, 0, (place - (lines.length - 1) / 2) * LEADING + 0.5);
  });
  context.restore();
}

/** The ground of a text over a hatch, no wider than its box. */
function plate({ context, scene }: Brush, lines: readonly string[], room: number, aside: boolean): void {
  context.font = labelFont(scene.palette);
  const width = Math.min(room, Math.max(...lines.map(text => context.measureText(text).width)) + 8);
  const height = lines.length * LEADING + 3;
  context.fillStyle = scene.palette.bg;
  context.beginPath();
  context.roundRect(aside ? -4 : -width / 2, -height / 2, width, height, 3);
  context.fill();
}

/** Text of an axis. */
export function paintAxisText(
  { context, scene }: Brush,
  text: string,
  x: number,
  y: number,
  align: CanvasTextAlign = 'center',
): void {
  context.font = axisFont(scene.palette);
  context.fillStyle = scene.palette.ink3;
  context.textAlign = align;
  context.textBaseline = 'middle';
  context.fillText(text, x, y);
}

/** A line of one pixel. */
export function paintLine(context: CanvasRenderingContext2D, colour: string, from: Point, to: Point, width = 1): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
}

export type Point = readonly [number, number];

function fillRound(context: CanvasRenderingContext2D, area: Area): void {
  if (area.width < 6 || area.height < 6) {
    context.fillRect(area.x, area.y, area.width, area.height);
    return;
  }
  context.beginPath();
  context.roundRect(area.x, area.y, area.width, area.height, RADIUS);
  context.fill();
}

function strokeRound(
  context: CanvasRenderingContext2D,
  area: Area,
  outset: number,
  width: number,
  colour: string,
): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.roundRect(area.x - outset, area.y - outset, area.width + 2 * outset, area.height + 2 * outset, 2 + outset);
  context.stroke();
}
