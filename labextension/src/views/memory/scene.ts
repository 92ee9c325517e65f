/** What the parts of the memory view draw from: facts of the run, made once, and of the moment, made for each drawing. */

import { MEMORY_LABELS } from '../../_generated/schema';
import { fitIn, widthIn } from '../../canvas/text';
import type { Buffer, Finding, Palette, Peak, Run, State } from '../../types';
import type { PartitionClass } from './classes';
import { classesOf } from './classes';
import type { Colouring, Painter } from './colour';
import { painterOf } from './colour';
import { coresOf } from './cores';
import type { Measure } from './labels';
import { fullRange, usedRange } from './map';
import type { Occupancy, Tile } from './occupancy';
import { occupancyOf } from './occupancy';
import type { Shown, Zoom } from './ranges';
import { shownOf } from './ranges';
import type { Usage } from './uses';
import { createUsage } from './uses';

/** What holds for the whole run in the memories of one core. */
export interface CoreMemory {
  readonly core: number;
  readonly sbuf: Occupancy;
  readonly psum: Occupancy;
  readonly classes: readonly PartitionClass[];
  /** When most bytes of SBUF are in use in its fullest partition; null where that is unknown. */
  readonly peak: Peak | null;
}

/** What holds for the whole run. */
export interface Model {
  readonly run: Run;
  readonly buffers: readonly Buffer[];
  readonly usage: Usage;
  /** At least one, ascending. */
  readonly cores: readonly number[];
  /** The memories of a core: made when first asked for, then kept. */
  readonly memoryOf: (core: number) => CoreMemory;
  /** The finding that SBUF is too small. */
  readonly overflow: Finding | undefined;
  /** Whether a finding says that a tile was overwritten while it was needed. */
  readonly clobbered: boolean;
}

/** What the user chose here. */
export interface Choices {
  readonly colouring: Colouring;
  readonly hex: boolean;
  /** The class of partitions whose lifetimes are shown, as its place. */
  readonly part: number;
  readonly zoom: Zoom;
}

/** What is looked at. */
export interface Moment {
  readonly core: number;
  /** The time shown: the cursor's, or that of the peak while nobody has moved the cursor. */
  readonly time: number;
  readonly atPeak: boolean;
}

/** What holds for the moment. */
export interface Scene extends Omit<Model, 'memoryOf'>, CoreMemory, Choices, Moment {
  readonly state: State;
  readonly palette: Palette;
  readonly painter: Painter;
  /** Without details column and with fewer words. */
  readonly compact: boolean;
  readonly shown: Shown;
  readonly sbufTiles: readonly Tile[];
  readonly psumTiles: readonly Tile[];
  /** Buffers in full colour, with an ink outline, and with a fine one. */
  readonly strong: ReadonlySet<number>;
  readonly outlined: ReadonlySet<number>;
  readonly twins: ReadonlySet<number>;
}

/** Capacity, hardly any room, overlap: the codes of the allocator. */
const FULL = /^NKI31[56]$/;
const OVERLAP = 'NKI317';

/** The model of a run. `before` is one of the same run with fewer rows: what depends on no row is kept. */
export function modelOf(run: Run, before?: Model): Model {
  const kept = before?.buffers === run.buffers ? before : undefined;
  const cores = coresOf(run);
  const known = new Map<number, CoreMemory>();
  return {
    run,
    buffers: run.buffers,
    cores,
    memoryOf: kept?.memoryOf ?? (core => found(known, core, () => memoryFor(run, core))),
    usage: createUsage(run),
    overflow: run.findings.find(finding => FULL.test(finding.code) && finding.message.includes(MEMORY_LABELS.sbuf)),
    clobbered: run.findings.some(finding => finding.code === OVERLAP),
  };
}

function found<K, V>(known: Map<K, V>, key: K, make: () => V): V {
  let value = known.get(key);
  if (value === undefined) known.set(key, (value = make()));
  return value;
}

function memoryFor(run: Run, core: number): CoreMemory {
  const sbuf = occupancyOf(run, 'sbuf', core);
  return {
    core,
    sbuf,
    psum: occupancyOf(run, 'psum', core),
    classes: classesOf(sbuf.tiles, run.capacity.partitions),
    peak: run.peak('sbuf', core),
  };
}

/** Painters, kept as long as nothing changes that they depend on. */
export function createPainters(model: Model): (by: Colouring, palette: Palette) => Painter {
  let kept: { by: Colouring; palette: Palette; painter: Painter } | undefined;
  return (by, palette) => {
    if (kept?.by !== by || kept.palette !== palette) {
      kept = { by, palette, painter: painterOf(model.run, by, palette) };
    }
    return kept.painter;
  };
}

export function sceneOf(
  model: Model,
  state: State,
  choices: Choices,
  look: Moment & { readonly palette: Palette; readonly painter: Painter; readonly compact: boolean },
): Scene {
  const { run } = model;
  const memory = model.memoryOf(look.core);
  const { sbuf, partitions } = run.capacity;
  const reach = state.usedRange ? usedRange(memory.sbuf.reach, sbuf) : fullRange(memory.sbuf.reach, sbuf);
  const chosen = state.tile >= 0 ? [state.tile] : [];
  return {
    ...model,
    ...memory,
    ...choices,
    ...look,
    state,
    shown: shownOf(choices.zoom, reach, partitions),
    sbufTiles: memory.sbuf.at(look.time),
    psumTiles: memory.psum.at(look.time),
    strong: new Set([
      ...(look.atPeak ? [] : operandsOf(run, state.step)),
      ...operandsOf(run, state.selected),
      ...chosen,
    ]),
    outlined: new Set([...operandsOf(run, state.selected), ...chosen]),
    twins: new Set([...operandsOf(run, state.hover.step), ...(state.hover.tile >= 0 ? [state.hover.tile] : [])]),
  };
}

/** Bytes at the right edge of the map, unzoomed. */
export function rangeOf(scene: Scene): number {
  const { sbuf } = scene.run.capacity;
  return scene.state.usedRange ? usedRange(scene.sbuf.reach, sbuf) : fullRange(scene.sbuf.reach, sbuf);
}

/** The buffers of a step's operands, in their order, each once. */
export function operandsOf(run: Run, step: number): readonly number[] {
  if (step < 0 || !run.has(step)) return [];
  return [...new Set(run.accesses(step).map(access => run.view(access.view).buffer))];
}

/** Sizes of text on the canvases, in CSS pixels. */
export const LABEL_SIZE = 11;
export const AXIS_SIZE = 10.5;

export function labelFont(palette: Palette): string {
  return `500 ${LABEL_SIZE}px ${palette.uiFont}`;
}

export function axisFont(palette: Palette): string {
  return `${AXIS_SIZE}px ${palette.uiFont}`;
}

/** Widths of labels. May set the context's font. */
export function measureOf(context: CanvasRenderingContext2D, palette: Palette): Measure {
  const font = labelFont(palette);
  return {
    width: text => widthIn(context, font, text),
    fit: (text, width) => fitIn(context, font, text, width),
  };
}
