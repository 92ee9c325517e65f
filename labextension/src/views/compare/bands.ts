/** What lies between and over the two timelines: ribbons, the ends of the runs, the instruction that is picked. */
import { DIM, type DrawContext, FONTS, plate, useFont } from '../timeline/draw_context';
import { type Figure, placeOf } from '../timeline/figure';
import { type Scale, xOf } from '../timeline/zoom';
import { ticks } from '../../canvas/scale';
import { widthOf } from '../../canvas/text';
import * as format from '../../format';
import type { Palette } from '../../types';
import type { Comparison, Side, Stretches } from './message';
import { other } from './message';
import type { Picked } from './state';
import type { Ribbon } from './windows';

/** Where the parts lie from top to bottom, in pixels. */
export interface Places {
  readonly top: Readonly<Record<Side, number>>;
  readonly ribbons: readonly [number, number];
}

const LABEL_ROOM = 34;
/** Half of the room that a number of the axis takes. */
const TICK = 18;

/** Bands between equal stretches, with their names and how much longer they take below. */
export function paintRibbons(
  drawing: DrawContext,
  ribbons: readonly Ribbon[],
  { ribbons: [top, bottom] }: Places,
  look: { readonly stretches: Stretches; readonly bright: (ribbon: Ribbon) => boolean },
): void {
  const { context, palette } = drawing;
  const isSome = ribbons.some(look.bright);
  ribbons.forEach((ribbon, number) => {
    context.globalAlpha = isSome && !look.bright(ribbon) ? DIM : 1;
    trace(context, ribbon, top, bottom);
    context.fillStyle = number % 2 === 0 ? palette.sunk : palette.hoverGround;
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = palette.line2;
    context.stroke();
  });
  context.globalAlpha = 1;
  let taken = -Infinity;
  for (const ribbon of ribbons) taken = paintName(drawing, ribbon, { ...look, middle: (top + bottom) / 2, taken });
}

function trace(
  context: CanvasRenderingContext2D,
  { top: [a, b], bottom: [c, d] }: Ribbon,
  y: number,
  end: number,
): void {
  const middle = (y + end) / 2;
  context.beginPath();
  context.moveTo(a, y);
  context.lineTo(Math.max(b - 1, a + 1), y);
  context.bezierCurveTo(Math.max(b - 1, a + 1), middle, Math.max(d - 1, c + 1), middle, Math.max(d - 1, c + 1), end);
  context.lineTo(c, end);
  context.bezierCurveTo(c, middle, a, middle, a, y);
  context.closePath();
}

/** The name and the change, where there is room to the right of `taken`; returns where the next one has room. */
function paintName(
  drawing: DrawContext,
  ribbon: Ribbon,
  { stretches, middle, taken }: { readonly stretches: Stretches; readonly middle: number; readonly taken: number },
): number {
  const { context, palette } = drawing;
  const width = context.canvas.width / drawing.ratio;
  // At half its height the band is as wide as the mean of its ends.
  const left = Math.max((ribbon.top[0] + ribbon.bottom[0]) / 2, 0);
  const right = Math.min((ribbon.top[1] + ribbon.bottom[1]) / 2, width);
  if (right - left < LABEL_ROOM || left < taken) return taken;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  useFont(drawing, FONTS.plate, 600);
  const [first, last] = [stretches.name(ribbon.first), stretches.name(ribbon.last)];
  const full = first === last ? first : `${first} – ${last.replace(/^.* = /, '')}`;
  const room = right - left - 8;
  const name = [full, full.replace(/^.* = /, '')].find(text => widthOf(context, text) <= room) ?? '';
  const at = (left + right) / 2;
  context.fillStyle = palette.ink;
  context.fillText(name, at, middle - 8);
  useFont(drawing, FONTS.plate);
  const change = format.timeDifference(ribbon.change);
  if (widthOf(context, change) <= room) {
    context.fillStyle = Math.round(ribbon.change / 1000) < 0 ? palette.ok : palette.ink2;
    context.fillText(change, at, middle + 8);
  }
  return right;
}

/** The end of a run: a line through its lanes with the time. */
export function paintEnd(drawing: DrawContext, figure: Figure, top: number): void {
  const { context, palette } = drawing;
  const { run, scale, height } = figure;
  const x = Math.round(xOf(scale, run.makespan)) + 0.5;
  if (x < 0 || x > scale.width) return;
  context.strokeStyle = palette.ink;
  context.lineWidth = 1.6;
  context.beginPath();
  context.moveTo(x, top + 20);
  context.lineTo(x, top + height);
  context.stroke();
  useFont(drawing, FONTS.plate, 600);
  const text = format.time(run.makespan);
  const isLeft = x + widthOf(context, text) + 10 > scale.width;
  context.textAlign = isLeft ? 'right' : 'left';
  context.textBaseline = 'middle';
  const wide = widthOf(context, text) + 8;
  const [plate, end] = isLeft ? [x - wide - 1, x - 1] : [x + 1, x + 1 + wide];
  context.fillStyle = palette.bg;
  context.fillRect(plate, top + 1, end - plate, 19);
  // A number of the axis is there as a whole, or not at all.
  for (const tick of ticks(scale.from, scale.to, scale.width).values) {
    const at = xOf(scale, tick);
    if (at + TICK > plate && at - TICK < end) context.fillRect(at - TICK, top + 1, 2 * TICK, 19);
  }
  context.fillStyle = palette.ink;
  context.fillText(text, isLeft ? x - 5 : x + 5, top + 11);
}

/** What was won, or lost: behind the end of the shorter run, up to where the longer one ends. */
export function paintGain(drawing: DrawContext, figures: Readonly<Record<Side, Figure>>, { top }: Places): void {
  const { context, palette } = drawing;
  const [before, after] = [figures.before.run.makespan, figures.after.run.makespan];
  const isLess = after < before;
  const side = isLess ? 'after' : 'before';
  const { scale, height } = figures[side];
  const [from, to] = [xOf(scale, Math.min(before, after)), xOf(scale, Math.max(before, after))];
  if (to - from < 12 || to < 0 || from > scale.width) return;
  const colour = isLess ? palette.ok : palette.error;
  const y = Math.round(top[side] + height / 2) + 0.5;
  context.strokeStyle = colour;
  context.lineWidth = 1.6;
  context.beginPath();
  context.moveTo(from, y);
  context.lineTo(to, y);
  context.moveTo(to, y - 6);
  context.lineTo(to, y + 6);
  context.stroke();
  useFont(drawing, FONTS.plate, 600);
  const text = format.timeDifference(after - before);
  if (widthOf(context, text) + 24 > to - from) return;
  const look = { ground: palette.bg, ink: colour, edge: colour, height: 20, radius: 5 };
  plate(drawing, text, (from + to) / 2, y - 10, [0, scale.width], look);
}

/** Ticks above instructions that the other run does not have, where they have bars of their own. */
export function paintAlone(drawing: DrawContext, figure: Figure, top: number, has: (step: number) => boolean): void {
  const { context, palette } = drawing;
  context.fillStyle = palette.ink;
  const mark = (x: number, width: number, y: number): void =>
    context.fillRect(x, top + y - 2, Math.max(2, width - 1), 1.5);
  for (const [strip, { bars }] of figure.lanes)
    for (const bar of bars?.bars ?? [])
      if (bar.count === 1 && !has(bar.step)) mark(bar.x, bar.width, placeOf(figure, bar.step)?.y ?? strip.top);
  for (const found of figure.dma.values())
    for (const track of found.tracks ?? [])
      for (const bar of track.bars)
        if (bar.count === 1 && !has(bar.step)) mark(bar.x, bar.width, placeOf(figure, bar.step)?.y ?? 0);
}

/** The instruction that is picked, its partner, and a curve from the one to the other. */
export function paintPair(
  drawing: DrawContext,
  comparison: Comparison,
  figures: Readonly<Record<Side, Figure>>,
  places: Places,
  picked: Picked,
  weight: number,
): void {
  const mate: Picked = { side: other(picked.side), step: comparison.partner(picked.side, picked.step) };
  for (const { side, step } of [picked, mate]) outline(drawing, figures[side], places.top[side], step, weight);
  if (mate.step < 0) return;
  const [one, two] = picked.side === 'before' ? [picked, mate] : [mate, picked];
  const above = middleOf(figures.before, one.step);
  const below = middleOf(figures.after, two.step);
  if (above === null || below === null) return;
  const { context, palette } = drawing;
  const from = places.top.before + above.y + above.height + 1;
  const to = places.top.after + below.y - 2;
  const bend = (from + to) / 2;
  context.strokeStyle = palette.ink;
  context.lineWidth = weight > 1.5 ? 1.4 : 1;
  context.globalAlpha = weight > 1.5 ? 0.9 : 0.55;
  context.beginPath();
  context.moveTo(above.x, from);
  context.bezierCurveTo(above.x, bend, below.x, bend, below.x, to);
  context.stroke();
  context.globalAlpha = 1;
}

function middleOf(figure: Figure, step: number): { x: number; y: number; height: number } | null {
  const place = placeOf(figure, step);
  return place && { x: place.x + Math.max(place.width, 1) / 2, y: place.y, height: place.height };
}

function outline({ context, palette }: DrawContext, figure: Figure, top: number, step: number, weight: number): void {
  const place = step >= 0 ? placeOf(figure, step) : null;
  if (place === null) return;
  context.strokeStyle = palette.ink;
  context.lineWidth = weight;
  context.beginPath();
  context.roundRect(place.x - 2, top + place.y - 2, Math.max(3, place.width) + 4, place.height + 4, 3);
  context.stroke();
}

/** A time at the edge for a partner that is outside of what is shown. */
export function paintBeyond(drawing: DrawContext, figure: Figure, top: number, step: number): void {
  if (step < 0 || !figure.run.has(step)) return;
  const start = figure.run.rows.start[step - figure.run.rows.first];
  const x = xOf(figure.scale, start);
  if (x >= 0 && x <= figure.scale.width) return;
  useFont(drawing, FONTS.plate, 500);
  const isLeft = x < 0;
  const text = isLeft ? `← ${format.time(start)}` : `${format.time(start)} →`;
  const at = isLeft ? 0 : figure.scale.width;
  plate(drawing, text, at, top + figure.height / 2 - 10, [4, figure.scale.width - 4], look(drawing.palette));
}

function look(palette: Palette): { ground: string; ink: string; edge: string; height: number; radius: number } {
  return { ground: palette.bg, ink: palette.ink, edge: palette.line2, height: 20, radius: 5 };
}

export type Scales = Readonly<Record<Side, Scale>>;
