/** The field in which a place of memory is asked for, and the answer in words. */

import { MEMORY_LABELS } from '../../_generated/schema';
import { el, replace, setText } from '../../dom';
import * as format from '../../format';
import type { Store } from '../../types';
import { laneOf } from '../../words';
import type { Answer, Finding, Place } from './query';
import { answerOf, parsePlace, placeText } from './query';
import type { Scene } from './scene';

export interface QueryBar {
  readonly field: HTMLElement;
  readonly answer: HTMLElement;
  /** Whether there is an answer to be seen. */
  readonly open: boolean;
  /** Ask for a place that was pointed at. */
  ask(scene: Scene, place: Place): void;
  draw(scene: Scene): void;
  close(): void;
}

/** `changed` is called when there is another answer, or none. */
export function createQueryBar(store: Store, sceneNow: () => Scene | undefined, changed: () => void): QueryBar {
  const input = el('input', {
    type: 'text',
    'aria-label': 'Who lies at a partition and byte, and when',
    placeholder: 'partition 17, byte 0x3400, 42 µs',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  const field = el('form', { class: 'nki-memory-query', role: 'search' }, input);
  const answer = el('div', { class: 'nki-memory-answer', 'aria-live': 'polite', hidden: true });
  let place: Place | undefined;
  let wrong = '';
  let drawn: unknown;
  const show = (scene: Scene): void => {
    answer.hidden = place === undefined && wrong === '';
    if (place !== undefined) replace(answer, ...wordsOf(scene, answerOf(scene, place), store));
    else setText(answer, wrong);
    drawn = scene.sbuf;
  };
  const put = (scene: Scene, asked: Place | string): void => {
    [place, wrong] = typeof asked === 'string' ? [undefined, asked] : [asked, ''];
    show(scene);
    changed();
  };
  const bar: QueryBar = {
    field,
    answer,
    get open() {
      return !answer.hidden;
    },
    ask(scene, asked) {
      input.value = placeText(asked);
      put(scene, asked);
    },
    draw(scene) {
      if (!answer.hidden && drawn !== scene.sbuf) show(scene);
    },
    close() {
      place = undefined;
      wrong = input.value = '';
      answer.hidden = true;
    },
  };
  field.addEventListener('submit', event => {
    event.preventDefault();
    const scene = sceneNow();
    if (scene === undefined) return;
    if (input.value.trim() === '') {
      bar.close();
      changed();
    } else put(scene, parsePlace(input.value, scene));
  });
  return bar;
}

function wordsOf(scene: Scene, answer: Answer, store: Store): HTMLElement[] {
  const { space, partition, byte, time } = answer.place;
  const core = scene.cores.length > 1 ? `${scene.run.coreName(scene.core)}, ` : '';
  const where = `${MEMORY_LABELS[space]}, ${core}partition ${partition}, byte ${format.address(byte)} at ${format.time(time)}`;
  const head = el('p', { class: 'nki-memory-place' }, where);
  if (answer.findings.length === 0) return [head, el('p', {}, freeWords(answer))];
  return [head, ...answer.findings.map(finding => findingWords(scene, finding, time, store))];
}

/** "free; acc[0] lay there until 20.00 µs; next is acc[2] from 50.00 µs". */
export function freeWords({ before, next }: Answer): string {
  const parts = [before === undefined && next === undefined ? 'free in the whole run' : 'free'];
  if (before !== undefined) parts.push(`${before.buffer.name} lay there until ${format.time(before.end)}`);
  if (next !== undefined) parts.push(`next is ${next.buffer.name} from ${format.time(next.start)}`);
  return parts.join('; ');
}

function findingWords(scene: Scene, finding: Finding, time: number, store: Store): HTMLElement {
  const { tile, phase, writer, reader } = finding;
  const state =
    phase === 'writing' ? 'being written' : phase === 'dead' ? `dead since ${format.time(tile.end)}` : 'live';
  const name = el(
    'button',
    { type: 'button', class: 'nki-memory-code', on: { click: () => store.set({ tile: tile.buffer.id }) } },
    tile.buffer.name,
  );
  const step = (number: number): HTMLElement =>
    el(
      'button',
      { type: 'button', class: 'nki-memory-step', on: { click: () => store.select(number) } },
      `${scene.run.op(number).name} #${format.ordinal(number)}`,
    );
  const at = (number: number): string => {
    const row = number - scene.run.rows.first;
    const start = scene.run.rows.start[row];
    const running = start <= time && time < start + scene.run.rows.duration[row];
    return ` on ${laneOf(scene.run, number).label} at ${format.time(start)}${running ? ', now' : ''}`;
  };
  const unknown = finding.loaded ? '' : ' among the loaded instructions';
  const written =
    writer >= 0
      ? [finding.writerMay ? '; perhaps written by ' : '; written by ', step(writer), at(writer)]
      : [`; written by nothing yet${unknown}`];
  const read =
    reader >= 0
      ? [finding.readerMay ? '; perhaps read next by ' : '; read next by ', step(reader), at(reader)]
      : [`; read by nothing more${unknown}`];
  return el('p', {}, name, ` ${state}, there since ${format.time(tile.start)}`, ...written, ...read);
}
