/** What colour a tile has: that of its writer as the timeline draws it, or one for its age. */

import { NO_HUE } from '../../_generated/schema';
import type { ColourBy, Hue, Lane, Palette, Run } from '../../types';
import { colouring } from '../timeline/colour';
import type { Tile } from './occupancy';

export type Colouring = ColourBy | 'age';

export interface Paint {
  readonly ground: string;
  readonly label: string;
}

/** Colours of tiles at a time. */
export type Painter = (tile: Tile, time: number) => Paint;

/** A tile's age is told apart up to this share of the run; older ones look alike. */
const OLD = 0.1;

/** The lane of the first instruction that writes a tile. */
export function writerOf(run: Run, tile: Tile): Lane | undefined {
  const writer = tile.buffer.lifetime?.writer ?? -1;
  return writer < 0 ? undefined : run.lanes[writer];
}

function writerHue(run: Run, tile: Tile): Hue {
  return writerOf(run, tile)?.hue ?? NO_HUE;
}

/** How tiles are coloured. By op, line or tensor a tile has the colour of the instruction that first writes it. */
export function painterOf(run: Run, by: Colouring, palette: Palette): Painter {
  if (by === 'engine') {
    return tile => {
      const hue = writerHue(run, tile);
      return { ground: palette.hue[hue], label: palette.onHue[hue] };
    };
  }
  if (by === 'age') {
    return (tile, time) => {
      const age = Math.min(1, Math.max(0, time - tile.written) / Math.max(1, run.makespan * OLD));
      return { ground: mix(palette.ok, palette.faint, age), label: palette.bg };
    };
  }
  const colours = colouring(run, by, palette);
  const known = new Map<number, Paint>();
  return tile => {
    let paint = known.get(tile.buffer.id);
    if (paint === undefined) {
      const step = tile.buffer.lifetime?.firstStep ?? -1;
      const ground = run.has(step) ? colours.of(step) : palette.faint;
      known.set(tile.buffer.id, (paint = { ground, label: colours.on(ground) }));
    }
    return paint;
  };
}

/** A colour between two, written #RRGGBB. */
export function mix(one: string, other: string, share: number): string {
  if (![one, other].every(colour => /^#[\da-f]{6}$/i.test(colour))) return one;
  const part = (at: number): string => {
    const [a, b] = [one, other].map(colour => Number.parseInt(colour.slice(at, at + 2), 16)) as [number, number];
    return Math.round(a + (b - a) * share)
      .toString(16)
      .padStart(2, '0');
  };
  return `#${part(1)}${part(3)}${part(5)}`;
}
