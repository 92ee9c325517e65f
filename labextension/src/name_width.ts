/** Columns of names are as wide as the longest one needs, within what their style sheet allows. */

/** The custom property with the letters of the longest name, for an element around the column. */
export function nameWidth(names: readonly string[]): Readonly<Record<string, string>> {
  return { '--nki-letters': String(names.reduce((longest, name) => Math.max(longest, name.length), 0)) };
}
