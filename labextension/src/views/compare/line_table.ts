/** Which line of the comparison an instruction comes from, and the instructions of a line. */
import type { Comparison, Side } from './message';
import type { Picked } from './state';
import type { Runs } from './times';

/** The header's lines, by the places of each run's sources. */
export class LineTable {
  private readonly numbers: Readonly<Record<Side, Map<string, number>>> = { before: new Map(), after: new Map() };

  constructor(
    private readonly runs: Runs,
    private readonly comparison: Comparison,
  ) {
    comparison.header.lines.forEach((line, number) => {
      if (line.line) this.numbers.before.set(`${line.file}:${line.line}`, number);
      if (line.other_line) this.numbers.after.set(`${line.other_file}:${line.other_line}`, number);
    });
  }

  number({ side, step }: Picked): number {
    const run = this.runs[side];
    const site = run.has(step) ? run.siteOf(step) : null;
    if (site === null) return -1;
    return this.numbers[side].get(`${run.sources[site.source]?.path ?? ''}:${site.line}`) ?? -1;
  }

  steps(side: Side, number: number): ArrayLike<number> {
    const line = this.comparison.header.lines[number];
    if (line === undefined) return [];
    const [file, at] = side === 'before' ? [line.file, line.line] : [line.other_file, line.other_line];
    const source = this.runs[side].sources.findIndex(one => one.path === file);
    return at > 0 && source >= 0 ? this.runs[side].stepsAtLine(source, at) : [];
  }
}
