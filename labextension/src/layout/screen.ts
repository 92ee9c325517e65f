/** Fills the screen with a visualizer, or the page where the browser or its host does not allow that. */

export interface Screen {
  fill(isFull: boolean): void;
  dispose(): void;
}

const FILLS_PAGE = 'nki-fills-page';

/** `left` is called when the user left the full screen by the browser's own means. */
export function createScreen(root: HTMLElement, left: () => void): Screen {
  let isFull = false;
  const changed = (): void => {
    if (isFull && document.fullscreenElement !== root && !root.classList.contains(FILLS_PAGE)) {
      isFull = false;
      left();
    }
  };
  const fillPage = (): void => {
    if (isFull) root.classList.add(FILLS_PAGE);
  };
  document.addEventListener('fullscreenchange', changed);
  const fill = (next: boolean): void => {
    if (next === isFull) return;
    isFull = next;
    if (isFull) {
      if (typeof root.requestFullscreen === 'function') root.requestFullscreen().catch(fillPage);
      else fillPage();
      return;
    }
    root.classList.remove(FILLS_PAGE);
    if (document.fullscreenElement === root) void document.exitFullscreen().catch(() => undefined);
  };
  return {
    fill,
    dispose() {
      document.removeEventListener('fullscreenchange', changed);
      fill(false);
    },
  };
}
