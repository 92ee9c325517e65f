/** Where everything of the PSUM strip stands: the banks in a row, in each its bytes to the right, partitions down. */

import type { Label, Measure } from './labels';
import { placeLabel } from './labels';
import type { Area } from './map';
import type { Tile } from './occupancy';
import type { BankState } from './uses';

export interface Bank extends Area {
  readonly number: number;
  /** Whether no tile lies in it. */
  readonly free: boolean;
}

/** The part of a tile in one bank. */
export interface Piece extends Area {
  readonly tile: Tile;
  readonly state: BankState;
  /** Done writes of the group as a share; 1 when closed. */
  readonly share: number;
  readonly label: Label | null;
}

export interface Banks {
  readonly banks: readonly Bank[];
  readonly pieces: readonly Piece[];
  /** Banks with a tile that is not drained, and banks with drained tiles only. */
  readonly used: number;
  readonly drained: number;
}

export interface BanksInput {
  readonly tiles: readonly Tile[];
  readonly count: number;
  readonly bankBytes: number;
  readonly partitions: number;
  readonly area: Area;
  readonly gap: number;
  readonly state: (tile: Tile) => BankState;
  readonly words: (state: BankState) => string;
  readonly measure: Measure;
}

const LEAST = 2;
/** Labels stand in the corner, not in the middle: they have less room. */
const CORNER = 6;

export function layoutBanks(input: BanksInput): Banks {
  const { area, count, gap } = input;
  const width = (area.width - gap * (count - 1)) / count;
  const states = input.tiles.map(tile => [tile, input.state(tile)] as const);
  const busy = new Set<number>();
  const taken = new Set<number>();
  const pieces: Piece[] = [];
  for (const [tile, state] of states.sort((a, b) => rank(a[1]) - rank(b[1]))) {
    for (const number of banksOf(tile, input.bankBytes, count)) {
      taken.add(number);
      if (state.kind !== 'drained') busy.add(number);
      pieces.push(pieceOf(input, tile, state, number, area.x + number * (width + gap), width));
    }
  }
  const banks = Array.from({ length: count }, (_, number) => ({
    number,
    free: !taken.has(number),
    x: area.x + number * (width + gap),
    y: area.y,
    width,
    height: area.height,
  }));
  return { banks, pieces, used: busy.size, drained: taken.size - busy.size };
}

/** The banks that a tile lies in. */
export function banksOf(tile: Tile, bankBytes: number, count: number): readonly number[] {
  const first = Math.floor(tile.low / bankBytes);
  const last = Math.min(count - 1, Math.floor((Math.max(tile.high, tile.low + 1) - 1) / bankBytes));
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => first + place);
}

/** Drained pieces are painted first. */
function rank(state: BankState): number {
  return state.kind === 'drained' ? 0 : 1;
}

function pieceOf(input: BanksInput, tile: Tile, state: BankState, bank: number, x: number, width: number): Piece {
  const { area, bankBytes, partitions } = input;
  const low = Math.max(0, tile.low - bank * bankBytes) / bankBytes;
  const high = Math.min(bankBytes, tile.high - bank * bankBytes) / bankBytes;
  const place = {
    x: x + low * width,
    y: area.y + (tile.top / partitions) * area.height,
    width: Math.max(LEAST, (high - low) * width),
    height: Math.max(LEAST, ((Math.min(tile.bottom, partitions) - tile.top) / partitions) * area.height),
  };
  const room = { width: place.width - CORNER, height: place.height };
  const label = placeLabel(tile.buffer.name, input.words(state), room, input.measure);
  const share = state.kind === 'filling' ? state.done / Math.max(1, state.of) : 1;
  return { tile, state, share, label, ...place };
}
