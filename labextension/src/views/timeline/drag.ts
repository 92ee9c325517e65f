/** Presses that move: one shape for the overview's handles, the axis and areas. */

export interface Drag {
  /** Where it stands, in pixels of the element that was pressed. */
  readonly x: number;
  readonly y: number;
  /** From where it was pressed. */
  readonly dx: number;
  /** True once it went far enough to be no click. */
  readonly moved: boolean;
  readonly event: PointerEvent;
}

export interface Dragging {
  /** Whether to take this press. */
  start(drag: Drag): boolean;
  move(drag: Drag): void;
  end(drag: Drag): void;
  cancel?(): void;
}

/** Less than this is a click. */
const STILL = 3;

export function onDrag(element: HTMLElement, handler: Dragging): void {
  let from: { x: number; y: number; id: number } | null = null;
  let moved = false;
  const tell = (event: PointerEvent): Drag => {
    const box = element.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const origin = from ?? { x: event.clientX, y: event.clientY };
    moved ||= Math.hypot(event.clientX - origin.x, event.clientY - origin.y) >= STILL;
    return { x, y, dx: event.clientX - origin.x, moved, event };
  };
  element.addEventListener('pointerdown', event => {
    if (event.button !== 0 || from !== null) return;
    moved = false;
    if (!handler.start(tell(event))) return;
    from = { x: event.clientX, y: event.clientY, id: event.pointerId };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener('pointermove', event => {
    if (from?.id === event.pointerId) handler.move(tell(event));
  });
  element.addEventListener('pointerup', event => {
    if (from?.id !== event.pointerId) return;
    const drag = tell(event);
    from = null;
    handler.end(drag);
  });
  // Text that happens to be selected would be carried away instead.
  element.addEventListener('dragstart', event => event.preventDefault());
  element.addEventListener('pointercancel', () => {
    from = null;
    handler.cancel?.();
  });
}
