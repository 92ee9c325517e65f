/** The banks of PSUM in place, each tile with the state of its accumulation. */

import { MEMORY_LABELS } from '../../_generated/schema';
import { createSurface } from '../../canvas/surface';
import { el, setText } from '../../dom';
import { paintLast, widthOf } from '../../drawing';
import * as format from '../../format';
import type { Bank, Banks, Piece } from './banks';
import { layoutBanks } from './banks';
import type { Brush } from './brush';
import {
  paintAxisText,
  paintDead,
  paintLabel,
  paintLive,
  paintOutline,
  paintPale,
  paintTint,
  paintWriting,
} from './brush';
import { boxAt } from './map';
import type { Scene } from './scene';
import type { Section } from './section';
import { inside, pointIn } from './section';
import { measureOf } from './scene';
import { describe } from './table';
import type { BankState } from './uses';

const SIZES = {
  compact: { plot: 36, left: 38, right: 8, gap: 3 },
  full: { plot: 62, left: 56, right: 12, gap: 9 },
} as const;
const ABOVE = 6;
const NUMBERS = 18;

type Sizes = (typeof SIZES)[keyof typeof SIZES];

export function createPsum(): Section {
  const surface = createSurface();
  const words = el('span', { class: 'nki-memory-words' });
  const now = el('span', { class: 'nki-memory-now' });
  const none = el('p', { class: 'nki-memory-none' });
  const plot = el('div', { class: 'nki-memory-plot' }, surface.element);
  const caption = el('div', { class: 'nki-memory-caption' }, el('b', {}, MEMORY_LABELS.psum), words, now);
  const element = el('div', { class: 'nki-memory-psum' }, caption, plot, none);
  let pieces: readonly Piece[] = [];
  let drawn: { readonly banks: Banks; readonly scene: Scene } | undefined;

  return {
    element,
    plot,
    axes: null,
    draw(scene) {
      const { psumBank } = scene.run.capacity;
      const count = bankCount(scene);
      setText(words, `${count} banks × ${format.bytes(psumBank)}${scene.compact ? '' : ' per partition'}`);
      const lost = scene.psum.homeless.length;
      none.hidden = lost === 0;
      setText(
        none,
        lost === 0
          ? ''
          : `No addresses: the run has ${format.plural(lost, 'tile')} in PSUM and does not say in which bank.`,
      );
      const sizes = scene.compact ? SIZES.compact : SIZES.full;
      surface.resize(widthOf(plot), ABOVE + sizes.plot + NUMBERS);
      const brush = { context: surface.context, scene };
      const banks = banksFor(scene, sizes, brush, widthOf(plot));
      pieces = banks.pieces;
      drawn = { banks, scene };
      setText(now, scene.compact ? shortNow(scene, banks, count) : nowWords(scene, banks, count));
      paintLast(surface, () => {
        surface.clear();
        for (const bank of banks.banks) paintBank(brush, bank);
        for (const piece of banks.pieces) paintPiece(brush, piece);
        for (const piece of banks.pieces) paintOutline(brush, piece.tile, piece);
        if (!scene.compact) paintAxisText(brush, 'bank', sizes.left - 8, ABOVE + sizes.plot / 2, 'right');
      });
    },
    describe(scene) {
      describe(surface.element, MEMORY_LABELS.psum, words.textContent, scene, scene.psumTiles);
    },
    area: () => undefined,
    spotAt(event) {
      if (drawn === undefined) return undefined;
      const [x, y] = pointIn(surface.element, event);
      const bank = drawn.banks.banks.find(one => inside(one, x, y, 1));
      if (bank === undefined) return undefined;
      const { partitions, psumBank } = drawn.scene.run.capacity;
      const share = (at: number, from: number, size: number): number =>
        Math.min(Math.max((at - from) / size, 0), 1 - 1e-9);
      return {
        space: 'psum',
        partition: Math.floor(share(y, bank.y, bank.height) * partitions),
        byte: Math.floor((bank.number + share(x, bank.x, bank.width)) * psumBank),
        time: drawn.scene.time,
        tile: boxAt(pieces, x, y)?.tile,
        fold: undefined,
      };
    },
    stops: () =>
      [...pieces]
        .sort((a, b) => a.x - b.x || a.y - b.y)
        .map(piece => ({ key: `t${piece.tile.buffer.id} ${piece.x}`, area: piece, tile: piece.tile, fold: undefined })),
  };
}

export function bankCount(scene: Scene): number {
  const { psum, psumBank } = scene.run.capacity;
  return Math.max(1, Math.floor(psum / Math.max(1, psumBank)));
}

function banksFor(scene: Scene, sizes: Sizes, brush: Brush, width: number): Banks {
  return layoutBanks({
    tiles: scene.psumTiles,
    count: bankCount(scene),
    bankBytes: scene.run.capacity.psumBank,
    partitions: scene.run.capacity.partitions,
    area: { x: sizes.left, y: ABOVE, width: Math.max(8, width - sizes.left - sizes.right), height: sizes.plot },
    gap: sizes.gap,
    state: tile => scene.usage.state(tile, scene.time),
    words: state => (scene.compact ? shortWords(state) : stateWords(state)),
    measure: measureOf(brush.context, scene.palette),
  });
}

/** "10/16", "closed", "drained": where there is room for few letters. */
function shortWords(state: BankState): string {
  if (state.kind !== 'filling') return state.kind;
  return state.of > 1 ? `${state.done}/${state.of}` : '';
}

/** "k 10 of 16", "group closed", "drained at 93.50 µs". */
export function stateWords(state: BankState): string {
  if (state.kind === 'closed') return 'group closed';
  if (state.kind === 'drained') return `drained at ${format.time(state.since)}`;
  if (state.adds) return `k ${state.done} of ${state.of}`;
  return state.of > 1 ? `write ${state.done} of ${state.of}` : 'being written';
}

function shortNow(scene: Scene, banks: Banks, count: number): string {
  return scene.psum.tiles.length === 0 ? nowWords(scene, banks, count) : `${banks.used} of ${count} in use`;
}

/** "5 of 8 banks in use, 1 drained · high-water 16 KiB". */
export function nowWords(scene: Scene, banks: Banks, count: number): string {
  if (scene.psum.tiles.length === 0) {
    if (scene.psum.homeless.length > 0) return '';
    return scene.cores.length > 1 ? `not used by ${scene.run.coreName(scene.core)}` : 'not used by this run';
  }
  const drained = banks.drained > 0 ? `, ${banks.drained} drained` : '';
  return `${banks.used} of ${count} banks in use${drained} · addresses up to ${format.bytes(scene.psum.highWater.bytes)}`;
}

function paintBank(brush: Brush, bank: Bank): void {
  const { context, scene } = brush;
  context.fillStyle = scene.palette.sunk;
  context.fillRect(bank.x, bank.y, bank.width, bank.height);
  const middle = bank.x + bank.width / 2;
  if (bank.free && !scene.compact) paintAxisText(brush, 'free', middle, bank.y + bank.height / 2);
  paintAxisText(brush, String(bank.number), middle, bank.y + bank.height + 10);
}

function paintPiece(brush: Brush, piece: Piece): void {
  const { tile, state, share } = piece;
  const strong = brush.scene.strong.has(tile.buffer.id);
  if (state.kind === 'drained') {
    paintDead(brush, tile, piece);
    paintLabel(brush, piece.label, piece, tile, 'none', true);
  } else if (state.kind === 'closed') {
    paintLive(brush, tile, piece);
    paintLabel(brush, piece.label, piece, tile, strong ? 'solid' : 'tint', true);
  } else if (brush.scene.compact) {
    paintWriting(brush, tile, piece, share);
    paintLabel(brush, piece.label, piece, tile, 'hatch', true);
  } else {
    // How many of its writes are done is no fill level: it runs downwards, and its label says what it is.
    paintPale(brush, tile, piece);
    paintTint(brush, tile, { ...piece, height: piece.height * share });
    paintLabel(brush, piece.label, piece, tile, 'tint', true);
  }
}
