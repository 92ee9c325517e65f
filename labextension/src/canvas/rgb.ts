/** Colours as numbers, for pixels that are set one by one. */

export type Rgb = readonly [number, number, number];

const known = new Map<string, Rgb>();

/** Red, green and blue, 0 to 255, of any opaque CSS colour. */
export function rgbOf(colour: string): Rgb {
  let rgb = known.get(colour);
  if (rgb === undefined) known.set(colour, (rgb = hex(colour) ?? asked(colour)));
  return rgb;
}

/** Of #RRGGBB or #RGB; null for other spellings. */
export function hex(colour: string): Rgb | null {
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(colour);
  if (short) return hex(`#${short[1]}${short[1]}${short[2]}${short[2]}${short[3]}${short[3]}`);
  if (!/^#[0-9a-f]{6}$/i.test(colour)) return null;
  const number = Number.parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** Names, system colours and functions: what a canvas paints for them. */
function asked(colour: string): Rgb {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  if (context === null) return [128, 128, 128];
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data;
  return [red, green, blue];
}
