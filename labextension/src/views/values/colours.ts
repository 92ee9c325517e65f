/** Values as colours: below zero blue, above it orange, sizes and errors green; the ground is zero. */
import type { Rgb } from '../../canvas/rgb';
import { rgbOf } from '../../canvas/rgb';
import type { Palette } from '../../types';

const STEPS = 128;

export type Look = 'signed' | 'magnitude' | 'bits';

/** From a number to a colour. */
export interface Scale {
  readonly least: number;
  readonly most: number;
  readonly isLog: boolean;
  colour(value: number): Rgb;
}

/** Ramps of a palette, as tables of colours. */
function ramp(ground: string, [middle, end]: readonly [string, string]): readonly Rgb[] {
  const [from, half, to] = [rgbOf(ground), rgbOf(middle), rgbOf(end)];
  return Array.from({ length: STEPS + 1 }, (_, step) => {
    const at = step / STEPS;
    return at < 0.5 ? mixed(from, half, at * 2) : mixed(half, to, at * 2 - 1);
  });
}

function mixed(one: Rgb, other: Rgb, share: number): Rgb {
  return [0, 1, 2].map(part => Math.round(one[part] + (other[part] - one[part]) * share)) as unknown as Rgb;
}

/** Values between −most and most, symmetric about zero. */
export function signedScale(most: number, palette: Palette): Scale {
  const below = ramp(palette.bg, palette.values.below);
  const above = ramp(palette.bg, palette.values.above);
  const factor = most > 0 ? STEPS / most : 0;
  return {
    least: -most,
    most,
    isLog: false,
    colour(value) {
      const step = Math.min(STEPS, Math.round(Math.abs(value) * factor));
      return (value < 0 ? below : above)[step] ?? below[0];
    },
  };
}

/** Sizes from zero to `most`. */
export function sizeScale(most: number, palette: Palette): Scale {
  const green = ramp(palette.bg, palette.values.size);
  const factor = most > 0 ? STEPS / most : 0;
  return {
    least: 0,
    most,
    isLog: false,
    colour: value => green[Math.min(STEPS, Math.round(Math.abs(value) * factor))] ?? green[0],
  };
}

/** Errors on a log scale: four decades up to `most`; none is the ground. */
export function errorScale(most: number, palette: Palette): Scale {
  const green = ramp(palette.bg, palette.values.size);
  const least = most / 1e4;
  return {
    least,
    most,
    isLog: true,
    colour(value) {
      if (!(value > 0) || most <= 0) return green[0];
      const share = Math.min(1, Math.max(0, Math.log10(value / least) / 4));
      return green[Math.round(8 + share * (STEPS - 8))] ?? green[STEPS];
    },
  };
}

/** The same as a style sheet writes it, for the bar that explains the colours. */
export function gradient(scale: Scale): string {
  const variables =
    scale.least < 0
      ? '--nki-below-2, --nki-below-1, --nki-bg, --nki-above-1, --nki-above-2'
      : '--nki-bg, --nki-size-1, --nki-size-2';
  return `linear-gradient(to right, ${variables.replace(/--[\w-]+/g, 'var($&)')})`;
}
