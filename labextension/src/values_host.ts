/** Questions for values to the kernel, one at a time, and what notebooks keep of values. */

import type { IndexUseHeader } from './_generated/schema';

import { type TileValues, decodeValues } from './tile_values';
import { inflate } from './wire';
import type { ErrorGrowth, IndicesAnswer, ValuesAnswer, ValuesHost, ValuesQuestion } from './types';

/** So long nothing is said; then the kernel is called busy. */
const PATIENCE_MS = 1500;
const GONE = 'The kernel is gone: values need it. Run the cell again.';
const BUSY = 'The kernel is busy with something else; the values come when it is done.';

/** What the kernel says; see nki_lab/widgets/value_answers.py. */
export interface KernelAnswer extends Partial<ErrorGrowth>, Partial<Omit<IndexUseHeader, 'steps'>> {
  readonly kind?: string;
  readonly request?: number;
  readonly reason?: string;
  readonly step?: number;
  readonly until?: number;
}

interface Asked {
  /** Of the questions of an asker only the newest is answered. */
  readonly asker: string;
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
  /** The newest question of each asker, the oldest asker first. */
  private readonly next = new Map<string, Asked>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly send: (content: unknown) => boolean,
    private readonly isGone: () => boolean = () => false,
  ) {}

  ask(question: ValuesQuestion, answer: (answer: ValuesAnswer) => void): void {
    this.start({
      asker: 'values',
      content: { kind: 'values', ...question },
      take(told, bytes) {
        answer(
          told.reason === undefined && bytes !== undefined ? read(bytes) : { kind: 'none', reason: reasonOf(told) },
        );
      },
      wait: reason => answer({ kind: 'waiting', reason }),
    });
  }

  indices(step: number, view: number, asker: string, answer: (answer: IndicesAnswer) => void): void {
    this.start({
      asker: `indices ${asker}`,
      content: { kind: 'indices', step, view },
      take(told) {
        answer(isUse(told) ? { kind: 'indices', use: told } : { kind: 'none', reason: reasonOf(told) });
      },
      wait: reason => answer({ kind: 'waiting', reason }),
    });
  }

  findNonfinite(step: number, answer: (found: number | string) => void): void {
    const search = (until: number): void =>
      this.start({
        asker: 'nonfinite',
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
      asker: 'growth',
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
    // What came too late for the page is not shown.
    if (!this.next.has(asked.asker)) asked.take(told, bytes);
    this.proceed();
    return true;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.current = null;
    this.next.clear();
  }

  private start(asked: Asked): void {
    this.next.delete(asked.asker);
    this.next.set(asked.asker, asked);
    this.proceed();
  }

  /** Send the question that waits longest, if none is on its way. */
  private proceed(): void {
    while (this.current === null) {
      if (this.isGone()) {
        this.end();
        return;
      }
      const [asked] = this.next.values();
      if (asked === undefined) return;
      this.next.delete(asked.asker);
      requests += 1;
      this.current = { ...asked, request: requests };
      if (this.send({ ...asked.content, request: requests })) {
        this.watch();
        return;
      }
      this.current = null;
      asked.take({ reason: GONE }, undefined);
    }
  }

  /** The newest question of each asker. */
  private waiting(): readonly Asked[] {
    const { current, next } = this;
    return [...(current === null || next.has(current.asker) ? [] : [current]), ...next.values()];
  }

  /** Tell all who wait that nobody is there to answer. */
  private end(): void {
    const waiting = this.waiting();
    this.current = null;
    this.next.clear();
    for (const asked of waiting) asked.take({ reason: GONE }, undefined);
  }

  /** Say that the kernel is busy or gone while it does not answer. */
  private watch(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.isGone()) {
        this.end();
        return;
      }
      for (const asked of this.waiting()) asked.wait(BUSY);
      if (this.current !== null) this.watch();
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

  indices(step: number, view: number, _: string, answer: (answer: IndicesAnswer) => void): void {
    for (const { header } of this.tiles)
      for (const use of header.indices ?? [])
        if (use.view === view && use.steps.includes(step)) {
          answer({ kind: 'indices', use });
          return;
        }
    answer({ kind: 'none', reason: 'Its values were not pinned: run.pin keeps them.' });
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

function isUse(told: KernelAnswer): told is KernelAnswer & IndexUseHeader {
  return told.values !== undefined && told.stride !== undefined && told.lowest !== undefined;
}

function reasonOf(told: KernelAnswer): string {
  return told.reason ?? 'The kernel answered without values.';
}
