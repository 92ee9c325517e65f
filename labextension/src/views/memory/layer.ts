/** Pictures of the lifetimes in one window: painted at once, or where tiles are many, in pieces between frames. */

import { hatch } from '../../canvas/hatch';
import { createSurface } from '../../canvas/surface';
import type { Surface } from '../../canvas/surface';
import { cancelSoon, soon } from '../../store';
import type { Span } from '../../types';
import type { Brush } from './brush';
import { paintDead, paintLive, paintPale } from './brush';
import type { Frame } from './chart';
import type { Bar, Chart } from './lifetimes';
import { layoutLifetimes } from './lifetimes';
import * as format from '../../format';
import type { Area } from './map';
import type { Scene } from './scene';
import { axisFont, measureOf } from './scene';

/** A picture of the lifetimes; its boxes are in its own coordinates. */
export interface Layer {
  readonly key: string;
  readonly window: Span;
  readonly bytes: Span;
  readonly surface: Surface;
  readonly chart: Chart;
  readonly barOf: ReadonlyMap<number, Bar>;
}

export interface Layers {
  /** The picture of a frame, or the last one while that is being painted. */
  layerFor(scene: Scene, frame: Frame, ratio: number): Layer | undefined;
  dispose(): void;
}

/** Lower bars are not hatched, and their dead time is not dashed: it would be noise. */
const HATCHED = 4;
const DASHED = 8;
const QUIET = 0.55;
/** Runs with more tiles are painted in pieces of so many milliseconds, once nothing changed for so long. */
const MANY = 4000;
const PIECE = 6;
const STILL = 60;
/** So many bars are painted between two breaks. */
const STRETCH = 512;

/** `ready` is called with each picture that was painted in pieces. */
export function createLayers(ready: (layer: Layer) => void): Layers {
  let kept: Layer | undefined;
  let working: { key: string; work: Generator<undefined, Layer> } | undefined;
  let spare: Surface | undefined;
  let frame = 0;
  let waiting = 0;
  const stop = (): void => {
    if (frame !== 0) cancelSoon(frame);
    window.clearTimeout(waiting);
    frame = 0;
    working = undefined;
  };
  const work = (): void => {
    frame = 0;
    if (working === undefined) return;
    const until = performance.now() + PIECE;
    for (;;) {
      const { done, value } = working.work.next();
      if (done === true) {
        spare = kept?.surface;
        working = undefined;
        ready((kept = value));
        return;
      }
      if (performance.now() >= until) break;
    }
    frame = soon(work);
  };
  return {
    layerFor(scene, asked, ratio) {
      const key = keyOf(scene, asked, ratio);
      if (kept?.key === key) {
        stop();
        return kept;
      }
      if (working?.key === key) return kept;
      stop();
      const surface = spare ?? createSurface();
      const made = paintLayer(surface, key, scene, asked);
      if (scene.sbuf.tiles.length <= MANY) {
        spare = kept?.surface;
        kept = finished(made);
        return kept;
      }
      working = { key, work: made };
      waiting = window.setTimeout(() => (frame = soon(work)), kept === undefined ? 0 : STILL);
      return kept;
    },
    dispose: stop,
  };
}

/** The result of work that is done without breaks. */
export function finished<T>(made: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = made.next();
    if (done === true) return value;
  }
}

function keyOf(scene: Scene, { area, window, bytes, part }: Frame, ratio: number): string {
  const { palette, run } = scene;
  const look = [palette.theme, palette.ink, scene.colouring, ratio, area.width, area.height];
  const what = [scene.core, scene.sbuf.tiles.length, run.rows.first, run.rows.count, part?.from];
  return [...look, ...what, window.from, window.to, bytes.from, bytes.to].join(' ');
}

function* paintLayer(surface: Surface, key: string, scene: Scene, frame: Frame): Generator<undefined, Layer> {
  const { area, window, bytes } = frame;
  const width = Math.round(area.width);
  const chart = yield* layoutLifetimes({
    tiles: scene.sbuf.between(window.from, window.to),
    window,
    partitions: frame.part,
    bytes,
    area: { x: 0, y: 0, width, height: area.height },
    measure: measureOf(surface.context, scene.palette),
    deadWords: time => (scene.compact ? '' : `dead ${shortTime(time)}`),
    makespan: scene.run.makespan,
    clobbered: scene.clobbered,
    start: buffer => scene.sbuf.of(buffer)?.start ?? Infinity,
  });
  surface.resize(width, area.height + 1);
  surface.clear();
  const quiet = { ...scene, strong: new Set<number>() };
  const brush = { context: surface.context, scene: quiet };
  let painted = 0;
  for (const block of chart.blocks) {
    if (++painted % STRETCH === 0) yield undefined;
    const { ground } = scene.painter(block.tile, block.tile.end);
    surface.context.globalAlpha = 0.25 + 0.35 * block.busy;
    surface.context.fillStyle = ground;
    surface.context.fillRect(block.x, block.y, block.width, block.height);
    surface.context.globalAlpha = 1;
    if (block.label !== '') paintText(brush, block.label, block.x + block.width / 2, block, scene.palette.ink);
  }
  const barOf = new Map<number, Bar>();
  for (const bar of chart.bars) {
    if (++painted % STRETCH === 0) yield undefined;
    barOf.set(bar.tile.buffer.id, bar);
    paintBar(brush, bar, scene.palette.ink, frame.capacity);
  }
  return { key, window, bytes, surface, chart, barOf };
}

/** Without decimals that are zero: "6 µs". */
function shortTime(picoseconds: number): string {
  return format
    .time(picoseconds)
    .replace(/\.00(?= )/, '')
    .replace(/(\.\d)0(?= )/, '$1');
}

/** One life: hatched while it is written, solid while it is live, dashed while it is dead. */
export function paintBar(brush: Brush, bar: Bar, ink: string, capacity: number): void {
  const { context, scene } = brush;
  const { tile, x, y, height, written, end } = bar;
  const right = x + bar.width;
  if (right - end >= 1 && height >= DASHED) {
    context.globalAlpha = QUIET;
    paintDead(brush, tile, { x: end, y, width: right - end, height });
    context.globalAlpha = 1;
  }
  if (end > written) paintLive(brush, tile, { x: written, y, width: Math.max(1, end - written), height });
  if (written > x) {
    const area = { x, y, width: written - x, height };
    if (height < HATCHED) paintLive(brush, tile, area);
    else {
      paintPale(brush, tile, area);
      context.globalAlpha = QUIET;
      context.fillStyle = hatch(context, scene.painter(tile, tile.end).ground, 45);
      context.fillRect(area.x, area.y, area.width, area.height);
      context.globalAlpha = 1;
    }
  }
  if (tile.high > capacity) {
    context.fillStyle = hatch(context, scene.palette.error, 135);
    context.fillRect(x, y, end - x, height);
  }
  const from = bar.labelled === 'live' ? written : x;
  if (bar.label !== '') paintText(brush, bar.label, (from + end) / 2, bar, ink, bar.labelled === 'all' && written > x);
  if (bar.deadLabel !== '') paintText(brush, bar.deadLabel, (end + right) / 2, bar, scene.palette.ink3);
}

function paintText({ context, scene }: Brush, text: string, x: number, area: Area, ink: string, plate = false): void {
  context.font = axisFont(scene.palette);
  const y = area.y + area.height / 2;
  if (plate) {
    const width = context.measureText(text).width + 6;
    context.fillStyle = scene.palette.bg;
    context.beginPath();
    context.roundRect(x - width / 2, Math.max(area.y, y - 7), width, Math.min(area.height, 14), 3);
    context.fill();
  }
  context.fillStyle = plate ? scene.palette.ink : ink;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(text, x, y + 0.5);
}
