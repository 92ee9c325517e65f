/** What the parts of the memory view draw from: facts of the run, made once, and of the moment, made for each drawing. */

import { MEMORY_LABELS } from '../../_generated/schema';
import { fit, widthOf } from '../../canvas/text';
import type { Buffer, Finding, Palette, Run, State } from '../../types';
import type { PartitionClass } from './classes';
import { classesOf } from './classes';
import type { Colouring, Painter } from './colour';
import { painterOf } from './colour';
import type { Measure } from './labels';
import type { Occupancy, Tile } from './occupancy';
import { occupancyOf } from './occupancy';
import type { Usage } from './uses';
import { createUsage } from './uses';

/** What holds for the whole run. */
export interface Model {
  readonly run: Run;
  readonly buffers: readonly Buffer[];
  readonly sbuf: Occupancy;
  readonly psum: Occupancy;
  readonly usage: Usage;
  readonly classes: readonly PartitionClass[];
  /** The finding that SBUF is too small. */
  readonly overflow: Finding | undefined;
  /** Whether a finding says that a tile was overwritten while it was needed. */
  readonly clobbered: boolean;
}

/** What the user chose here. */
export interface Choices {
  readonly colouring: Colouring;
  readonly hex: boolean;
  /** The class of partitions whose lifetimes are shown. */
  readonly letter: string;
}

/** What holds for the moment. */
export interface Scene extends Model, Choices {
  readonly state: State;
  readonly palette: Palette;
  readonly painter: Painter;
  /** Without details column, legend and classes. */
  readonly compact: boolean;
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
  const sbuf = kept?.sbuf ?? occupancyOf(run, 'sbuf');
  return {
    run,
    buffers: run.buffers,
    sbuf,
    psum: kept?.psum ?? occupancyOf(run, 'psum'),
    usage: createUsage(run),
    classes: kept?.classes ?? classesOf(sbuf.tiles, run.capacity.partitions),
    overflow: run.findings.find(finding => FULL.test(finding.code) && finding.message.includes(MEMORY_LABELS.sbuf)),
    clobbered: run.findings.some(finding => finding.code === OVERLAP),
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
  look: { readonly palette: Palette; readonly painter: Painter; readonly compact: boolean },
): Scene {
  const { run } = model;
  const chosen = state.tile >= 0 ? [state.tile] : [];
  return {
    ...model,
    ...choices,
    ...look,
    state,
    sbufTiles: model.sbuf.at(state.time),
    psumTiles: model.psum.at(state.time),
    strong: new Set([...operandsOf(run, state.step), ...operandsOf(run, state.selected), ...chosen]),
    outlined: new Set([...operandsOf(run, state.selected), ...chosen]),
    twins: new Set([...operandsOf(run, state.hover.step), ...(state.hover.tile >= 0 ? [state.hover.tile] : [])]),
  };
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

/** Widths of labels. Sets the context's font. */
export function measureOf(context: CanvasRenderingContext2D, palette: Palette): Measure {
  const font = labelFont(palette);
  return {
    width(text) {
      context.font = font;
      return widthOf(context, text);
    },
    fit(text, width) {
      context.font = font;
      return fit(context, text, width);
    },
  };
}
