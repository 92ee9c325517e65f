/** Questions for values to the kernel, one at a time, and what notebooks keep of values. */

import { type TileValues, decodeValues } from './tile_values';
import { inflate } from './wire';
import type { ErrorGrowth, ValuesAnswer, ValuesHost, ValuesQuestion } from './types';

/** So long nothing is said; then the kernel is called busy. */
const PATIENCE_MS = 1500;
const GONE = 'The kernel is gone: values need it. Run the cell again.';
const BUSY = 'The kernel is busy with something else; the values come when it is done.';

/** What the kernel says; see nki_lab/widgets/value_answers.py. */
export interface KernelAnswer extends Partial<ErrorGrowth> {
  readonly kind?: string;
  readonly request?: number;
  readonly reason?: string;
  readonly step?: number;
  readonly until?: number;
}

interface Asked {
  readonly content: Readonly<Record<string, unknown>>;
  take(told: KernelAnswer, bytes: ArrayBuffer | ArrayBufferView | undefined): void;
  wait(reason: string): void;
}

let requests = 0;

/**
 * The values of a live run. `send` gives a question to the kernel and tells whether it went, `isGone` tells that nobody
 * is there to answer.
 */
export class KernelValues implements ValuesHost {
  readonly isLive = true;
  readonly kept = [];
  private current: (Asked & { request: number }) | null = null;
  private next: Asked | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly send: (content: unknown) => boolean,
    private readonly isGone: () => boolean = () => false,
  ) {}

  ask(question: ValuesQuestion, answer: (answer: ValuesAnswer) => void): void {
    this.start({
      content: { kind: 'values', ...question },
      take(told, bytes) {
        answer(
          told.reason === undefined && bytes !== undefined ? read(bytes) : { kind: 'none', reason: reasonOf(told) },
        );
      },
      wait: reason => answer({ kind: 'waiting', reason }),
    });
  }

  findNonfinite(step: number, answer: (found: number | string) => void): void {
    const search = (until: number): void =>
      this.start({
        content: { kind: 'nonfinite', step, until },
        take(told) {
          if (told.reason !== undefined) answer(told.reason);
          else if ((told.step ?? -1) < 0 && (told.until ?? -1) >= 0) search(told.until!);
          else answer(told.step ?? -1);
        },
        wait: () => undefined,
      });
    search(-1);
  }

  growth(answer: (found: ErrorGrowth | string) => void): void {
    this.start({
      content: { kind: 'growth' },
      take({ reason, steps, errors, tolerance = 0, first = -1, text = '' }) {
        if (steps === undefined || errors === undefined) answer(reasonOf({ reason }));
        else answer({ steps, errors, tolerance, first, text });
      },
      wait: () => undefined,
    });
  }

  /** Take an answer; false if it is not for this one. */
  receive(told: KernelAnswer, bytes: ArrayBuffer | ArrayBufferView | undefined): boolean {
    const asked = this.current;
    if (asked === null || told.request !== asked.request) return false;
    clearTimeout(this.timer);
    this.current = null;
    const { next } = this;
    this.next = null;
    // What came too late for the page is not shown.
    if (next === null) asked.take(told, bytes);
    else this.start(next);
    return true;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.current = this.next = null;
  }

  private start(asked: Asked): void {
    if (this.isGone()) {
      this.current = this.next = null;
      asked.take({ reason: GONE }, undefined);
      return;
    }
    if (this.current !== null) {
      this.next = asked;
      return;
    }
    requests += 1;
    this.current = { ...asked, request: requests };
    if (this.send({ ...asked.content, request: requests })) {
      this.watch();
      return;
    }
    this.current = null;
    asked.take({ reason: GONE }, undefined);
  }

  /** Say that the kernel is busy or gone while it does not answer. */
  private watch(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const waiting = this.next ?? this.current;
      if (waiting === null) return;
      if (this.isGone()) {
        this.current = this.next = null;
        waiting.take({ reason: GONE }, undefined);
        return;
      }
      waiting.wait(BUSY);
      this.watch();
    }, PATIENCE_MS);
  }
}

/** The values that were kept of a run that has no kernel. */
export class KeptValues implements ValuesHost {
  readonly isLive = false;
  private readonly tiles: TileValues[] = [];

  /** Take values that were kept, compact and in base64. What is damaged is left out: the run is shown without it. */
  async add(kept: readonly unknown[]): Promise<void> {
    for (const one of kept) {
      if (typeof one !== 'string') continue;
      try {
        this.tiles.push(decodeValues(await inflate(one)));
      } catch {
        continue;
      }
    }
  }

  get kept(): readonly { readonly buffer: number; readonly step: number }[] {
    return this.tiles.map(({ header }) => ({ buffer: header.buffer, step: header.step }));
  }

  ask(question: ValuesQuestion, answer: (answer: ValuesAnswer) => void): void {
    const near = this.tiles
      .filter(({ header }) => header.buffer === question.buffer)
      .sort((one, other) => distance(one, question.step) - distance(other, question.step));
    if (near.length > 0) answer({ kind: 'tile', tile: near[0], pinned: true });
    else answer({ kind: 'none', reason: 'Values need the kernel: run the cell again and open run.view().' });
  }

  findNonfinite(_: number, answer: (found: string) => void): void {
    answer('A search needs the kernel: run the cell again and open run.view().');
  }

  growth(answer: (found: string) => void): void {
    answer('The errors of a run need the kernel: run the cell again and open run.view().');
  }

  dispose(): void {
    // It waits for nothing.
  }
}

function distance(tile: TileValues, step: number): number {
  return Math.abs(tile.header.step - step);
}

function read(bytes: ArrayBuffer | ArrayBufferView): ValuesAnswer {
  try {
    return { kind: 'tile', tile: decodeValues(bytes), pinned: false };
  } catch (error) {
    return { kind: 'none', reason: error instanceof Error ? error.message : String(error) };
  }
}

function reasonOf(told: KernelAnswer): string {
  return told.reason ?? 'The kernel answered without values.';
}
