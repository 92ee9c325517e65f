/** Names of lanes, parts of tiles, and what waits are for. */

import type { Buffer, Hue, Lane, TileView } from '../types';
import type { Header } from '../wire';

const ENGINES: Readonly<Partial<Record<string, { readonly hue: Hue; readonly label: string }>>> = {
  tensor: { hue: 'tensor', label: 'Tensor' },
  vector: { hue: 'vector', label: 'Vector' },
  scalar: { hue: 'scalar', label: 'Scalar' },
  gpsimd: { hue: 'gpsimd', label: 'GpSimd' },
  sync: { hue: 'sync', label: 'Sync' },
};

/** Reasons to wait that one engine alone can have, and whose hue they take. */
const OWN: Readonly<Partial<Record<string, Hue>>> = {
  'table load': 'scalar',
  'stationary load': 'tensor',
  'power ramp': 'tensor',
  'dma trigger': 'dma',
  'dma start': 'dma',
  'queue interval': 'dma',
  bandwidth: 'dma',
  semaphore: 'sync',
  launch: 'sync',
  none: 'sync',
};

const DATA_FROM = 'data from ';
const FOR_A_TILE: ReadonlySet<string> = new Set(['anti-dependency', 'output order', 'memory reuse', 'psum bank']);

export function lanesOf(header: Header): Lane[] {
  const cores = new Set(header.lanes.map(lane => lane.core)).size;
  return header.lanes.map(({ name, kind, core }, id) => {
    const engine = ENGINES[name.toLowerCase()];
    const isDma = kind === 'dma';
    const label = isDma ? name.replace(/^dma\b/i, 'DMA') : (engine?.label ?? name);
    return {
      id,
      name,
      kind: isDma ? 'dma' : 'engine',
      core,
      hue: isDma ? 'dma' : kind === 'collective' ? 'cc' : (engine?.hue ?? 'sync'),
      label: cores > 1 ? `${label}, core ${core}` : label,
    };
  });
}

/** The hue of what a reason waits for; null: that of the row that ended the wait. */
export function hueOfReason(reason: string): Hue | null {
  if (reason.startsWith(DATA_FROM)) {
    const from = reason.slice(DATA_FROM.length);
    return from.startsWith('dma') ? 'dma' : (ENGINES[from]?.hue ?? null);
  }
  return OWN[reason] ?? null;
}

/** True of waits that end with a tile: it is there, or its memory is free. */
export function isForATile(reason: string): boolean {
  return reason.startsWith(DATA_FROM) || FOR_A_TILE.has(reason);
}

/** A part of a buffer: its name, and in HBM which block of the tensor it is ("out[2, 0]", "a[64:128]"). */
export function partName(view: TileView, buffer: Buffer): string {
  if (buffer.space !== 'hbm' || buffer.shape.length === 0) return buffer.name;
  if (view.dtype !== buffer.dtype || view.indirect !== 0) return buffer.name;
  const parts: string[] = [];
  let rest = view.offset;
  let dense = buffer.shape.reduce((product, size) => product * size, 1);
  for (const size of buffer.shape) {
    dense /= size;
    const begin = Math.floor(rest / dense);
    rest -= begin * dense;
    const taken = view.dims.find(([, step]) => step === dense)?.[0] ?? 1;
    if (taken > size) return buffer.name; // neighbouring dimensions that were merged
    if (taken === size) continue;
    parts.push(begin % taken === 0 ? String(begin / taken) : `${begin}:${begin + taken}`);
  }
  return parts.length === 0 ? buffer.name : `${buffer.name}[${parts.join(', ')}]`;
}
