/** Places as JSON, for what is restored with the page; what comes back may be anything. */
import type { Place } from './place';

/** Characters of sources up to which they are stored: without them a place is found in the same program alone. */
const MOST = 100_000;

export function storable(place: Place | null): Place | null {
  if (place === null) return null;
  const size = place.sources.reduce((sum, { text }) => sum + text.length, 0);
  return size <= MOST ? place : { ...place, sources: [] };
}

export function isPlace(value: unknown): value is Place {
  const place = value as Place | null;
  return (
    typeof place === 'object' &&
    place !== null &&
    typeof place.kernel === 'string' &&
    typeof place.program === 'string' &&
    Number.isInteger(place.step) &&
    [place.time, place.makespan].every(number => Number.isFinite(number)) &&
    [place.sources, place.breakpoints].every(list => Array.isArray(list)) &&
    typeof place.choices === 'object' &&
    place.choices !== null
  );
}
