/** Widths of text and what fits into a width. */

/** What measuring needs of a canvas context. */
export type Measuring = Pick<CanvasRenderingContext2D, 'font' | 'measureText'>;

/** So many texts are kept; then the memory starts afresh. */
const KEPT = 8192;
/** A cut word shows at least so many letters. */
const LETTERS = 3;

const widths = new Map<string, number>();
const fits = new Map<string, string>();

/** Fonts that arrive late change widths. */
export function forgetWidths(): void {
  widths.clear();
  fits.clear();
}

/** Width of a text in the context's font. */
export function widthOf(context: Measuring, text: string): number {
  return widthIn(context, context.font, text);
}

/**
 * Width of a text in a font. The context is touched only where the width is not known yet: to set its font after a change
 * of the page has the browser lay that out.
 */
export function widthIn(context: Measuring, font: string, text: string): number {
  const key = `${font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size >= KEPT) widths.clear();
    context.font = font;
    widths.set(key, (width = context.measureText(text).width));
  }
  return width;
}

/** The text if it fits, else its beginning with "…" if three letters of it fit, else nothing. */
export function fit(context: Measuring, text: string, width: number): string {
  return fitIn(context, context.font, text, width);
}

/** What `fit` finds in a font; the context is touched only where that is not known yet. */
export function fitIn(context: Measuring, font: string, text: string, width: number): string {
  const room = Math.floor(width);
  if (room <= 0 || text === '') return '';
  if (widthIn(context, font, text) <= room) return text;
  const key = `${font}\n${room}\n${text}`;
  let cut = fits.get(key);
  if (cut === undefined) {
    if (fits.size >= KEPT) fits.clear();
    context.font = font;
    cut = shorten(context, text, room);
    fits.set(key, cut);
  }
  return cut;
}

function shorten(context: Measuring, text: string, room: number): string {
  const letters = Array.from(text);
  let low = 0;
  let high = letters.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${letters.slice(0, middle).join('')}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low < LETTERS ? '' : `${letters.slice(0, low).join('').trimEnd()}…`;
}
