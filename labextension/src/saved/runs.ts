/** What an output of a notebook keeps of runs. */
import { ABOUT_MIME, MIME, WIRE_VERSION, type RunAbout } from '../_generated/schema';
import * as format from '../format';
import { WireError } from '../wire';

/** The forms of an output, by MIME type. */
export type Bundle = Readonly<Record<string, unknown>>;

/** A run as a notebook keeps it. */
export interface SavedRun {
  readonly version?: unknown;
  readonly message?: unknown;
  readonly values?: unknown;
}

/** The runs of an output in order: the earlier ones of its cell, then the one that it is of. */
export function savedRuns(bundle: Bundle): readonly SavedRun[] {
  const data = bundle[MIME];
  const own = (typeof data === 'object' && data !== null ? data : {}) as SavedRun & { readonly earlier?: unknown };
  const earlier = Array.isArray(own.earlier) ? own.earlier.filter(isObject) : [];
  return [...earlier, own];
}

/** What is told about the runs of an output, in order; null for those of which nothing is. */
export function aboutRuns(bundle: Bundle): readonly (RunAbout | null)[] {
  const told = bundle[ABOUT_MIME];
  const abouts = Array.isArray(told) ? told.map(item => (isAbout(item) ? item : null)) : [];
  const count = MIME in bundle ? savedRuns(bundle).length : abouts.length;
  return abouts.length === count ? abouts : Array.from({ length: count }, () => null);
}

export function messageOf({ version, message }: SavedRun): string {
  if (version !== WIRE_VERSION)
    throw new WireError(
      `It is of version ${String(version)}, this page reads version ${WIRE_VERSION}. Run the cell again.`,
    );
  if (typeof message !== 'string') throw new WireError('The notebook keeps no message.');
  return message;
}

/** The values of tiles that the notebook keeps. */
export function keptOf({ values }: SavedRun): readonly unknown[] {
  return Array.isArray(values) ? values : [];
}

/** The picture of an output as an address; '' without one. */
export function pictureOf(bundle: Bundle): string {
  const png = bundle['image/png'];
  return typeof png === 'string' && /^[A-Za-z0-9+/=\s]+$/.test(png)
    ? `data:image/png;base64,${png.replace(/\s/g, '')}`
    : '';
}

/** "2.71 µs", and what else tells a run from its neighbours. */
export function latencyOf(about: RunAbout): string {
  return about.failed ? 'stopped' : format.time(about.makespan);
}

/** The same with its interval: "2.71 µs, 2.19 to 3.27". */
export function timeOf(about: RunAbout): string {
  const [low, high] = about.interval ?? [];
  const isKnown = !about.failed && low !== undefined && high !== undefined;
  return latencyOf(about) + (isKnown ? format.bounds(low, high, about.makespan) : '');
}

function isObject(value: unknown): value is SavedRun {
  return typeof value === 'object' && value !== null;
}

function isAbout(value: unknown): value is RunAbout {
  const about = value as RunAbout | null;
  return (
    isObject(value) &&
    typeof about?.kernel === 'string' &&
    typeof about.target === 'string' &&
    typeof about.makespan === 'number' &&
    typeof about.instructions === 'number' &&
    (about.interval === undefined || (Array.isArray(about.interval) && about.interval.every(Number.isFinite)))
  );
}
