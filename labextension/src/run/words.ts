/** Names of lanes, parts of tiles, and what waits are for. */

import { DATA_FROM, HUE_LABELS, HUES, NO_HUE, STALLS, type Header, type Hue } from '../_generated/schema';
import type { Buffer, Lane, TileView } from '../types';

export function lanesOf(header: Header): Lane[] {
  const cores = new Set(header.lanes.map(lane => lane.core)).size;
  return header.lanes.map(({ name, kind, core, rank }, id) => {
    const place = header.core_names?.[String(core)] ?? (cores > 1 ? `core ${core}` : '');
    const isDma = kind === 'dma';
    const known = hueOf(name);
    const label = known === null ? name : name.replace(/^\S+/, HUE_LABELS[known]);
    return {
      id,
      name,
      kind: isDma ? 'dma' : 'engine',
      core,
      rank: rank ?? 0,
      hue: isDma ? 'dma' : kind === 'collective' ? 'cc' : (known ?? NO_HUE),
      label: place === '' ? label : `${label}, ${place}`,
    };
  });
}

/** The hue of a lane by its name, "vector 2" being one of vector; null for names that nobody knows. */
function hueOf(name: string): Hue | null {
  const [first] = name.toLowerCase().split(' ');
  return HUES.find(hue => hue === first) ?? null;
}

/** The hue of what a reason waits for; null: that of the row that ended the wait. */
export function hueOfReason(reason: string): Hue | null {
  const known = STALLS[reason];
  if (known !== undefined) return known.hue === '' ? null : known.hue;
  return reason.startsWith(DATA_FROM) ? hueOf(reason.slice(DATA_FROM.length)) : null;
}

/** True of waits that end with a tile: it is there, or its memory is free. */
export function isForATile(reason: string): boolean {
  return STALLS[reason]?.forTile ?? reason.startsWith(DATA_FROM);
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
