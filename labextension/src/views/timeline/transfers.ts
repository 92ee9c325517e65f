/** What ranks send each other, as arrows from the rank whose data is there to the instruction that brings it. */
import type { Exchange, Run } from '../../types';
import { type DrawContext } from './draw_context';
import { type Figure, laneMiddle } from './figure';
import { type Scale, xOf } from './zoom';

/** More in a window are drawn as marks where they arrive. */
export const MOST_TRANSFERS = 160;
/** Of calls of at most so many ranks all transfers are drawn, of larger ones those that come last. */
const ALL_OF = 4;

export interface Transfer {
  readonly from: number;
  readonly to: number;
  /** When the data is there, and when it arrives. */
  readonly sent: number;
  readonly arrives: number;
  /** The step that brings it; the step that made it or -1. */
  readonly step: number;
  readonly sends: number;
  /** Its data came last of those that the receiver waited for. */
  readonly last: boolean;
}

const known = new WeakMap<Run['rows'], readonly Transfer[]>();

/** The transfers whose ends are loaded, in the order of the calls. */
export function transfersOf(run: Run): readonly Transfer[] {
  let found = known.get(run.rows);
  if (found === undefined) known.set(run.rows, (found = made(run)));
  return found;
}

function made(run: Run): readonly Transfer[] {
  const calls = new Map<number, Exchange[]>();
  for (const part of run.exchanges) {
    const mine = calls.get(part.call);
    if (mine) mine.push(part);
    else calls.set(part.call, [part]);
  }
  return [...calls.values()].flatMap(parts => parts.flatMap(part => transfersTo(run, part, parts)));
}

function transfersTo(run: Run, part: Exchange, all: readonly Exchange[]): Transfer[] {
  if (part.row < 0 || !run.has(part.row)) return [];
  const others = all.filter(one => one.rank !== part.rank && (part.source < 0 || one.rank === part.source));
  if (part.source < -1 || others.length === 0) return [];
  const latest = others.reduce((best, one) => (one.sent > best.sent ? one : best));
  const shown = all.length <= ALL_OF ? others : [latest];
  const arrives = run.rows.start[part.row - run.rows.first];
  return shown.map(one => ({
    from: one.rank,
    to: part.rank,
    sent: Math.min(one.sent, arrives),
    arrives,
    step: part.row,
    sends: one.sends,
    last: part.source >= 0 || (one === latest && one.sent >= part.sent),
  }));
}

export interface TransferLine {
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
  readonly last: boolean;
}

/** The transfers of a window; `dense` where there are too many for arrows. */
export function layoutTransfers(figure: Figure): { readonly lines: readonly TransferLine[]; readonly dense: boolean } {
  const { run, scale } = figure;
  if (run.exchanges.length === 0) return { lines: [], dense: false };
  const inside = transfersOf(run).filter(one => isInside(one, scale));
  const lines = inside.flatMap(one => {
    const place = run.rows.lane[one.step - run.rows.first];
    const target = laneMiddle(figure, place);
    const sender =
      one.sends >= 0 && run.has(one.sends) ? run.rows.lane[one.sends - run.rows.first] : sameLane(run, place, one.from);
    const source = laneMiddle(figure, sender);
    if (target === null || source === null) return [];
    return [{ x1: xOf(scale, one.sent), y1: source, x2: xOf(scale, one.arrives), y2: target, last: one.last }];
  });
  return { lines, dense: lines.length > MOST_TRANSFERS };
}

function isInside({ sent, arrives }: Transfer, { from, to }: Scale): boolean {
  return arrives >= from && sent <= to;
}

/** The lane of another rank that is called as this one. */
function sameLane(run: Run, lane: number, rank: number): number {
  const mine = run.lanes[lane];
  return (
    run.lanes.find(one => one.rank === rank && one.name === mine.name)?.id ??
    run.lanes.find(one => one.rank === rank)?.id ??
    -1
  );
}

const HEAD = { length: 6, half: 3 } as const;

export function paintTransfers(drawing: DrawContext, figure: Figure): void {
  const { lines, dense } = figure.transfers;
  const { context, palette } = drawing;
  const colour = palette.hue.cc;
  for (const one of lines) {
    context.globalAlpha = (one.last ? 1 : 0.4) * (drawing.dimmed ? 0.5 : 1);
    context.fillStyle = context.strokeStyle = colour;
    if (dense) {
      context.fillRect(Math.round(one.x2) - 0.5, one.y2 - 5, 1, 10);
      continue;
    }
    const bend = Math.max(10, Math.min(60, Math.abs(one.x2 - one.x1) / 2));
    for (const [style, width] of [
      [palette.bg, 3],
      [colour, one.last ? 1.6 : 1.1],
    ] as const) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(one.x1, one.y1);
      context.bezierCurveTo(one.x1 + bend, one.y1, one.x2 - bend, one.y2, one.x2 - HEAD.length, one.y2);
      context.stroke();
    }
    context.beginPath();
    context.moveTo(one.x2, one.y2);
    context.lineTo(one.x2 - HEAD.length, one.y2 - HEAD.half);
    context.lineTo(one.x2 - HEAD.length, one.y2 + HEAD.half);
    context.fill();
    context.beginPath();
    context.arc(one.x1, one.y1, 2, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
}
