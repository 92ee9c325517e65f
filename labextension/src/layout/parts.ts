/** The parts of a visualizer that can be folded, and what the browser remembers of it. */

export const PARTS = ['timeline', 'moment', 'panels'] as const;

/** The timeline; everything below the transport; of that, the panels that share a place. */
export type Part = (typeof PARTS)[number];

const KEY = 'nki-lab.layout';
const VERSION = 1;

/** What is folded when a visualizer opens. A browser that keeps nothing, or something else, has nothing folded. */
export function rememberedFolds(): ReadonlySet<Part> {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? 'null');
    if (typeof kept !== 'object' || kept === null) return new Set();
    const { version, folded } = kept as { version?: unknown; folded?: unknown };
    if (version !== VERSION || !Array.isArray(folded)) return new Set();
    return new Set(PARTS.filter(part => folded.includes(part)));
  } catch {
    return new Set();
  }
}

export function rememberFolds(folded: ReadonlySet<Part>): void {
  try {
    localStorage.setItem(KEY, JSON.stringify({ version: VERSION, folded: PARTS.filter(part => folded.has(part)) }));
  } catch {
    // Some pages may keep nothing: the next visualizer opens unfolded.
  }
}

/** The same parts with one folded or unfolded. */
export function toggled(folded: ReadonlySet<Part>, part: Part): ReadonlySet<Part> {
  const next = new Set(folded);
  if (!next.delete(part)) next.add(part);
  return next;
}

/** The same set where none of some parts is folded; the very same one where none was. */
export function without(folded: ReadonlySet<Part>, ...parts: readonly Part[]): ReadonlySet<Part> {
  return parts.some(part => folded.has(part)) ? new Set([...folded].filter(part => !parts.includes(part))) : folded;
}
