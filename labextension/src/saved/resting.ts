/**
 * A page draws some runs, however many it has: of further ones those that were used the longest ago come to rest, and
 * show their picture until somebody wants them back.
 */

/** Visualizers that are awake at most, as long as the others are out of sight. */
export const AWAKE = 12;

export interface Sleeper {
  readonly node: HTMLElement;
  rest(): void;
}

export class Awake {
  private readonly sleepers = new Set<Sleeper>();

  constructor(private readonly most = AWAKE) {}

  get count(): number {
    return this.sleepers.size;
  }

  /** It is drawn, or was used: it is the last that has to rest. */
  use(sleeper: Sleeper): void {
    this.sleepers.delete(sleeper);
    this.sleepers.add(sleeper);
    let over = this.sleepers.size - this.most;
    for (const other of [...this.sleepers]) {
      if (over <= 0) return;
      if (other === sleeper || isInSight(other.node)) continue;
      this.sleepers.delete(other);
      over -= 1;
      other.rest();
    }
  }

  /** It is gone, or rests. */
  drop(sleeper: Sleeper): void {
    this.sleepers.delete(sleeper);
  }
}

export const awake = new Awake();

function isInSight(node: HTMLElement): boolean {
  if (!node.isConnected) return false;
  const { top, bottom, width } = node.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < window.innerHeight;
}
