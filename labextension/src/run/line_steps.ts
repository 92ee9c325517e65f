/** The steps of every line, found once for all lines. */

/** Steps by group, each group's in order. */
export class LineSteps {
  private readonly begins: Uint32Array;
  private readonly steps: Uint32Array;

  /** `site` is the column of the rows from step `first` on, `groupOf` the group of each site. */
  constructor(first: number, count: number, site: Int32Array, groupOf: Int32Array, groups: number) {
    const begins = new Uint32Array(groups + 1);
    for (let at = 0; at < count; at++) if (site[at] >= 0) begins[groupOf[site[at]] + 1]++;
    for (let group = 0; group < groups; group++) begins[group + 1] += begins[group];
    const next = begins.slice(0, groups);
    const steps = new Uint32Array(begins[groups]);
    for (let at = 0; at < count; at++) if (site[at] >= 0) steps[next[groupOf[site[at]]]++] = first + at;
    this.begins = begins;
    this.steps = steps;
  }

  of(group: number): Uint32Array {
    return this.steps.subarray(this.begins[group], this.begins[group + 1]);
  }
}
