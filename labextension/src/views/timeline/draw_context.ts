/** What all painting of the timeline has at hand. */
import { crisp } from '../../canvas/surface';
import type { Palette } from '../../types';
import type { Bar } from './bars';
import type { Colouring } from './colour';
import type { Marks } from './marks';

export interface DrawContext {
  readonly context: CanvasRenderingContext2D;
  readonly palette: Palette;
  readonly colouring: Colouring;
  /** Device pixels per pixel. */
  readonly ratio: number;
  /** Something is selected or searched: what is not falls to 32 %. */
  readonly dimmed: boolean;
  /** What was found keeps its colour. */
  readonly marks: Marks | null;
}

export const DIM = 0.32;

/** Whether a bar is among what falls back. */
export function isDim(drawing: DrawContext, bar: Bar): boolean {
  return drawing.dimmed && drawing.marks?.has(bar) !== true;
}
const RADIUS = 2;

export const FONTS = { axis: 10.5, wait: 10.5, bar: 10.5, track: 9.5, plate: 11 } as const;

export function useFont(drawing: DrawContext, size: number, weight = 400): void {
  drawing.context.font = `${weight} ${size}px ${drawing.palette.uiFont}`;
}

/** To the nearest device pixel. */
export function whole(drawing: DrawContext, at: number): number {
  return Math.round(at * drawing.ratio) / drawing.ratio;
}

/** A box with round corners; corners that nobody would see are left square. */
export function box(drawing: DrawContext, x: number, y: number, width: number, height: number, radius = RADIUS): void {
  const { context } = drawing;
  if (width < 2 * radius || height < 2 * radius) {
    context.fillRect(x, y, width, height);
    return;
  }
  context.beginPath();
  context.roundRect(x, y, width, height, radius);
  context.fill();
}

/** A line of one device pixel. */
export function line(drawing: DrawContext, fromX: number, fromY: number, toX: number, toY: number): void {
  const { context, ratio } = drawing;
  context.lineWidth = 1;
  context.beginPath();
  if (fromX === toX) {
    context.moveTo(crisp(fromX, ratio), fromY);
    context.lineTo(crisp(toX, ratio), toY);
  } else {
    context.moveTo(fromX, crisp(fromY, ratio));
    context.lineTo(toX, crisp(toY, ratio));
  }
  context.stroke();
}

/** Text on a filled plate, its middle at x, kept within [left, right]. Returns where the plate begins and ends. */
export function plate(
  drawing: DrawContext,
  text: string,
  middle: number,
  y: number,
  edges: readonly [number, number],
  look: { ground: string; ink: string; edge?: string; height: number; radius: number },
): readonly [number, number] {
  const { context } = drawing;
  const [x, end] = plateSpan(drawing, text, middle, edges);
  const width = end - x;
  context.fillStyle = look.ground;
  box(drawing, x, y, width, look.height, look.radius);
  if (look.edge !== undefined) {
    context.strokeStyle = look.edge;
    context.lineWidth = 1.2;
    context.beginPath();
    context.roundRect(x, y, width, look.height, look.radius);
    context.stroke();
  }
  context.fillStyle = look.ink;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(text, x + width / 2, y + look.height / 2 + 0.5);
  return [x, end];
}

/** Where a plate begins and ends, with the font that is set. */
export function plateSpan(
  drawing: DrawContext,
  text: string,
  middle: number,
  [left, right]: readonly [number, number],
): readonly [number, number] {
  const width = drawing.context.measureText(text).width + 14;
  const x = whole(drawing, Math.min(Math.max(middle - width / 2, left), Math.max(left, right - width)));
  return [x, x + width];
}
