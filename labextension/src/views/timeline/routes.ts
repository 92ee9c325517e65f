/** Where arrows run and their words stand: along the lines between lanes, over as few bars as can be. */
import type { Bar } from './bars';
import { barTop, type Box, type Figure } from './figure';
import { type DmaStrip, type LaneStrip, SIZES } from './strips';

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** What an arrow joins: its ends in the window, and the bars' tops and heights. */
export interface Ends {
  readonly from: Point;
  readonly to: Point;
  readonly source: Pick<Box, 'y' | 'height' | 'width'>;
  readonly target: Pick<Box, 'y' | 'height' | 'width'>;
}

/** How far within its bars an arrow begins and ends, at most. */
const WITHIN = 4;
/** Places tried for the way across lanes, as shares of the way along. */
const TRIED = [1, 0, 0.5, 0.75, 0.25, 0.9, 0.1, 0.6, 0.4] as const;

/**
 * Corners of the way from one bar to the other: out of the source to the line beside its lane, along it, across the
 * lanes between where fewest bars are, along the line beside the target's lane, into the target.
 */
export function route(figure: Figure, ends: Ends): readonly Point[] {
  const { from, to, source, target } = ends;
  const first = from.x - Math.min(WITHIN, source.width / 2);
  const last = to.x + Math.min(WITHIN, target.width / 2);
  const isDown = target.y > source.y;
  const isSame = target.y === source.y;
  const out = isDown ? source.y + source.height : source.y;
  const into = isDown || isSame ? target.y : target.y + target.height;
  const leaving = lineBeside(figure, source, isDown ? 1 : -1);
  const arriving = lineBeside(figure, target, isDown || isSame ? -1 : 1);
  const begin = [
    { x: first, y: out },
    { x: first, y: leaving },
  ];
  const end = [
    { x: last, y: arriving },
    { x: last, y: into },
  ];
  if (Math.abs(leaving - arriving) < 1) return [...begin, ...end];
  const across = bestCrossing(figure, first, last, [Math.min(leaving, arriving), Math.max(leaving, arriving)]);
  return [...begin, { x: across, y: leaving }, { x: across, y: arriving }, ...end];
}

/** The line between lanes above (-1) or below (1) a bar; between the tracks of DMA there is little room. */
function lineBeside(figure: Figure, bar: Pick<Box, 'y' | 'height'>, side: 1 | -1): number {
  const strip = figure.strips.find(one => bar.y >= one.top && bar.y < one.top + one.height);
  if (strip?.kind === 'lane') return side > 0 ? strip.top + strip.height : strip.top;
  return side > 0 ? bar.y + bar.height + 1 : bar.y - 1;
}

function bestCrossing(figure: Figure, first: number, last: number, between: readonly [number, number]): number {
  let best = last;
  let fewest = Infinity;
  for (const share of TRIED) {
    const x = first + share * (last - first);
    const over = obstacles(figure, { x: x - 1, width: 2, y: between[0], height: between[1] - between[0] });
    if (over >= fewest) continue;
    [best, fewest] = [x, over];
  }
  return best;
}

/** How many bars and words of waits a box lies over. */
export function obstacles(figure: Figure, box: Box): number {
  let count = 0;
  for (const strip of figure.strips) {
    if (strip.top + strip.height <= box.y || strip.top >= box.y + box.height) continue;
    if (strip.kind === 'lane') count += onLane(figure, strip, box);
    else if (strip.kind === 'dma') count += onTracks(figure, strip, box);
    else if (strip.kind !== 'core') count += 1;
  }
  return count;
}

/** A wait's words are in its middle, and take this much of it at most. */
const WORDS = 120;

function onLane(figure: Figure, strip: LaneStrip, box: Box): number {
  const found = figure.lanes.get(strip);
  const y = barTop(strip);
  if (y >= box.y + box.height || y + strip.bar <= box.y) return 0;
  if (!found?.bars) return 1;
  const words = found.bars.waits
    .filter(wait => wait.width > WORDS / 2)
    .map(wait => {
      const width = Math.min(WORDS, wait.width);
      return { x: wait.x + (wait.width - width) / 2, width };
    });
  return within(found.bars.bars, box) + within(words, box);
}

function onTracks(figure: Figure, strip: DmaStrip, box: Box): number {
  const found = figure.dma.get(strip);
  if (!found?.tracks) return 1;
  let count = 0;
  strip.tracks.forEach((top, track) => {
    const isBeside = top >= box.y + box.height || top + SIZES.track <= box.y;
    if (!isBeside) count += within(found.tracks?.[track]?.bars ?? [], box);
  });
  // The thin rows below have no room beside them.
  return strip.pitch > 0 && box.y + box.height > strip.queues ? count + 1 : count;
}

function within(bars: readonly Pick<Bar, 'x' | 'width'>[], box: Box): number {
  return bars.filter(bar => bar.x < box.x + box.width && bar.x + bar.width > box.x).length;
}

/** Shifts of words from the middle of a piece of the way, tried in turn. */
const ASIDE = [0, -14, 14, -26, 26, -40, 40, -60, 60] as const;
const ALONG = [0.5, 0.3, 0.7, 0.1, 0.9] as const;

/** A place for words near the way of an arrow at which they cover nothing; null where there is none. */
export function placeFor(
  figure: Figure,
  way: readonly Point[],
  size: { width: number; height: number },
  taken: readonly Box[],
): Box | null {
  const limit = Math.max(2, figure.scale.width - size.width - 2);
  for (const aside of ASIDE) {
    for (const along of ALONG) {
      for (let at = 1; at + 1 < way.length; at++) {
        const [one, two] = [way[at], way[at + 1]];
        if (one.y !== two.y) continue;
        const x = Math.min(Math.max(one.x + along * (two.x - one.x) - size.width / 2, 2), limit);
        const box = { x, y: one.y - size.height / 2 + aside, ...size };
        const isInside = box.y > SIZES.axis && box.y + size.height < figure.height;
        if (isInside && obstacles(figure, box) === 0 && !taken.some(other => overlap(other, box))) return box;
      }
    }
  }
  return null;
}

export function overlap(one: Box, two: Box): boolean {
  const apart = one.x + one.width + 4 < two.x || two.x + two.width + 4 < one.x;
  return !apart && one.y + one.height + 2 > two.y && two.y + two.height + 2 > one.y;
}
