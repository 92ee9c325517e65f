/** Places in the source, with columns counted as strings of this language count them. */

import type { Site, Source } from '../types';
import type { Message, Numbers } from '../wire';

export class Sites {
  private readonly columns: Readonly<
    Record<'source' | 'line' | 'column' | 'end_line' | 'end_column' | 'function', Numbers>
  >;
  private readonly listings: (readonly string[] | undefined)[] = [];
  private readonly made: (Site | undefined)[] = [];

  constructor(
    message: Message,
    private readonly names: readonly string[],
    private readonly sources: readonly Source[],
  ) {
    const column = (name: string): Numbers => message.column('sites', name);
    this.columns = {
      source: column('source'),
      line: column('line'),
      column: column('column'),
      end_line: column('end_line'),
      end_column: column('end_column'),
      function: column('function'),
    };
  }

  site(id: number): Site | null {
    if (id < 0 || id >= this.columns.line.length) return null;
    return (this.made[id] ??= this.make(id));
  }

  /** The line of each site as a number from 0, which `line` gives too; -1: no site begins there. */
  lines(): { readonly of: Int32Array; readonly count: number; line(source: number, line: number): number } {
    const { source, line } = this.columns;
    const numbers = new Map<string, number>();
    const of = new Int32Array(line.length);
    for (let id = 0; id < line.length; id++) {
      const key = `${source[id]}:${line[id]}`;
      let number = numbers.get(key);
      if (number === undefined) numbers.set(key, (number = numbers.size));
      of[id] = number;
    }
    return { of, count: numbers.size, line: (where, at) => numbers.get(`${where}:${at}`) ?? -1 };
  }

  private make(id: number): Site {
    const source = this.columns.source[id];
    const line = this.columns.line[id];
    const endLine = this.columns.end_line[id];
    return {
      source,
      line,
      column: this.units(source, line, this.columns.column[id]),
      endLine: endLine === 0 ? line : endLine,
      endColumn: this.units(source, endLine === 0 ? line : endLine, this.columns.end_column[id]),
      function: this.names[this.columns.function[id]] ?? '',
    };
  }

  /** UTF-16 units of as many UTF-8 bytes at the beginning of a line. */
  private units(source: number, line: number, bytes: number): number {
    const listing = (this.listings[source] ??= (this.sources[source]?.text ?? '').split(/\r\n|\r|\n/));
    return unitsOf(listing[line - 1] ?? '', bytes);
  }
}

/** UTF-16 units of as many UTF-8 bytes at the beginning of a text; a text that is shorter counts as followed by ASCII. */
export function unitsOf(text: string, bytes: number): number {
  let left = bytes;
  let units = 0;
  for (const character of text) {
    if (left <= 0) return units;
    const code = character.codePointAt(0)!;
    left -= code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    units += character.length;
  }
  return units + Math.max(left, 0);
}
