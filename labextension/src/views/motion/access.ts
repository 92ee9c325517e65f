/** What an access touches of its buffer: the slice, as an index, partitions and bytes. */
import { INDIRECTIONS } from '../../_generated/schema';
import type { IndexUseHeader, Indirection } from '../../_generated/schema';
import type { Buffer, Run, TileView } from '../../types';
import { bytesOf, layoutOf, sliceOf, type Layout } from './layout';
import type { Slice } from './pattern';
import { subscript } from './subscript';

export interface Touched {
  readonly view: TileView;
  readonly buffer: Buffer;
  readonly layout: Layout;
  readonly slice: Slice;
  /** "[:, 1536:2048]"; '' where no index selects what it touches. */
  readonly subscript: string;
  readonly indirect: Indirection;
  /** The tensor that holds its run-time indices. */
  readonly index: Index | null;
}

/** Run-time indices, in order of the rows of the operand that they move. */
export type Picks = Pick<IndexUseHeader, 'values' | 'stride' | 'lowest' | 'highest'>;

/** A tensor of run-time indices: the indices, or the reason why nobody knows them. */
export interface Index {
  readonly id: number;
  readonly name: string;
  readonly picks: Picks | null;
  readonly reason: string;
}

export const NOT_KEPT = 'values not kept';

/** What a view touches; `picksOf` gives the run-time indices that move it, or why nobody knows them. */
export function touched(run: Run, id: number, picksOf: () => Picks | string = () => NOT_KEPT): Touched {
  const view = run.view(id);
  const buffer = run.buffers[view.buffer];
  const layout = layoutOf(buffer, view);
  const picks = view.index >= 0 ? picksOf() : NOT_KEPT;
  const index =
    view.index >= 0
      ? {
          id: view.index,
          name: run.buffers[run.view(view.index).buffer].name,
          picks: typeof picks === 'string' ? null : picks,
          reason: typeof picks === 'string' ? picks : '',
        }
      : null;
  const isPlain = view.dtype === buffer.dtype && view.indirect === 0;
  const texts = isPlain ? subscript(view.dims, view.offset, buffer.shape) : null;
  return {
    view,
    buffer,
    layout,
    slice: sliceOf(view, layout, index?.picks ?? null),
    subscript: texts && texts.length > 0 ? `[${texts.join(', ')}]` : '',
    indirect: INDIRECTIONS[view.indirect] ?? 'none',
    index,
  };
}

/** The physical partitions of an on-chip access, as [first, last]. Tiles without a place count from 0. */
export function partitionsOf(item: Touched): readonly [number, number] | null {
  const { bounds } = item.slice;
  if (item.buffer.space === 'hbm' || bounds === null) return null;
  const first = Math.max(item.buffer.partition, 0) + bounds.row;
  return [first, first + bounds.rows - 1];
}

/** The bytes within each partition from the first to the last that an on-chip access touches; null: unknown. */
export function bytesIn(item: Touched): { readonly first: number; readonly size: number } | null {
  const { bounds } = item.slice;
  const size = bytesOf(item.view.dtype);
  if (item.buffer.space === 'hbm' || item.buffer.byte < 0 || bounds === null || !(size > 0)) return null;
  return { first: item.buffer.byte + bounds.column * size, size: bounds.columns * size };
}

/** Whether an access leaves out some of what lies between its first and its last byte, or run-time values decide. */
export function isScattered({ slice }: Touched): boolean {
  return !slice.exact || slice.rects.length > 1;
}
