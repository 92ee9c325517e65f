/** A name within a box: upright if it fits, else turned, else cut, else none. */

/** The width of a text in the font of labels. */
export interface Measure {
  width(text: string): number;
  /** The text, or as much of it as fits; '' if less than three letters do. */
  fit(text: string, width: number): string;
}

export interface Label {
  readonly text: string;
  readonly second: string;
  /** To be read from below upwards. */
  readonly turned: boolean;
}

interface Room {
  readonly width: number;
  readonly height: number;
}

/** Pixels on each side of a text, a line of text, and two of them. */
const SIDE = 3;
const LINE = 13;
const LINES = 28;
/** A text that is cut goes only into boxes at least so wide. */
const CUT = 34;

/** The label of a box. A `whole` one is not cut. */
export function placeLabel(name: string, second: string, room: Room, measure: Measure, whole = false): Label | null {
  // Most boxes of a full map are slivers: these cost no measuring.
  if (name === '' || Math.min(room.width, room.height) < LINE) return null;
  const across = room.width - 2 * SIDE;
  const along = room.height - 2 * SIDE;
  const width = measure.width(name);
  if (width <= across && room.height >= LINE) return upright(name, second, room, measure);
  if (width <= along && room.width >= LINE) return { text: name, second: '', turned: true };
  if (whole) return null;
  const flat = room.height >= LINE && room.width >= CUT ? shorten(name, across, measure) : '';
  if (flat !== '') return upright(flat, second, room, measure);
  const tall = room.width >= LINE && room.height >= CUT ? shorten(name, along, measure) : '';
  return tall === '' ? null : { text: tall, second: '', turned: true };
}

function upright(text: string, second: string, room: Room, measure: Measure): Label {
  const fits = second !== '' && room.height >= LINES && measure.width(second) <= room.width - 2 * SIDE;
  return { text, second: fits ? second : '', turned: false };
}

/**
 * A name that fits into a width. Of "weights[3]" the index is kept, since it tells it from the others: "wei…[3]", then
 * "…[3]", then nothing.
 */
export function shorten(name: string, width: number, measure: Measure): string {
  if (measure.width(name) <= width) return name;
  const index = /\[[^\]]*\]$/.exec(name)?.[0] ?? '';
  if (index === '') return measure.fit(name, width);
  const letters = Array.from(name.slice(0, name.length - index.length));
  for (let kept = letters.length - 1; kept >= 0; kept--) {
    const cut = `${letters.slice(0, kept).join('')}…${index}`;
    if (measure.width(cut) <= width) return cut;
  }
  return '';
}
