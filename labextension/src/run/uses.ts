/** The accesses of each buffer, in order of step. */

import type { Rows, Uses } from '../types';

export interface Accesses {
  readonly rows: Rows;
  /** Of each access its view and its role. */
  readonly views: Uint32Array;
  readonly roles: Uint8Array;
}

/** An index of all loaded accesses by buffer: places of buffer b lie from `from[b]` to before `from[b + 1]`. */
export class BufferUses {
  private readonly from: Uint32Array;
  private readonly steps: Uint32Array;
  private readonly roles: Uint8Array;

  constructor({ rows, views, roles }: Accesses, buffers: number, bufferOf: Uint32Array) {
    const total = rows.access[rows.count];
    this.from = new Uint32Array(buffers + 1);
    this.steps = new Uint32Array(total);
    this.roles = new Uint8Array(total);
    for (let access = 0; access < total; access++) this.from[bufferOf[views[access]] + 1] += 1;
    for (let buffer = 0; buffer < buffers; buffer++) this.from[buffer + 1] += this.from[buffer];
    const next = this.from.slice();
    for (let at = 0; at < rows.count; at++) {
      for (let access = rows.access[at]; access < rows.access[at + 1]; access++) {
        const place = next[bufferOf[views[access]]]++;
        this.steps[place] = rows.first + at;
        this.roles[place] = roles[access];
      }
    }
  }

  of(buffer: number): Uses {
    const [low, high] = [this.from[buffer] ?? 0, this.from[buffer + 1] ?? 0];
    return { steps: this.steps.subarray(low, high), roles: this.roles.subarray(low, high) };
  }
}
