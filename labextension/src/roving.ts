/** One stop of the Tab key for a row of controls; arrows, Home and End move within it. */

/** The control that is chosen, which is the stop. */
const CHOSEN = ['[aria-selected="true"]', '[aria-checked="true"]'];

/** In a group of radios these do the same. */
const UPRIGHT: Readonly<Record<string, string>> = { ArrowDown: 'ArrowRight', ArrowUp: 'ArrowLeft' };

/** Have the arrow keys move the focus among the controls of a container. Returns what ends it. */
export function rove(container: HTMLElement, selector: string): void {
  const controls = (): HTMLElement[] =>
    [...container.querySelectorAll<HTMLElement>(selector)].filter(
      item => !item.hasAttribute('disabled') && isShown(item),
    );
  const stop = (chosen: HTMLElement | undefined): void => {
    for (const item of container.querySelectorAll<HTMLElement>(selector)) item.tabIndex = item === chosen ? 0 : -1;
  };
  container.addEventListener('focusin', event => {
    const control = (event.target as HTMLElement).closest<HTMLElement>(selector);
    if (control) stop(control);
  });
  container.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const all = controls();
    const place = all.indexOf(document.activeElement as HTMLElement);
    // A control with arrow keys of its own keeps them.
    if (place < 0 || all[place].matches('input, select, [role="slider"]')) return;
    const isRadio = all[place].getAttribute('role') === 'radio';
    const target = targetOf(isRadio ? (UPRIGHT[event.key] ?? event.key) : event.key, place, all.length);
    if (target < 0) return;
    event.preventDefault();
    event.stopPropagation();
    all[target].focus();
    // What the arrows reach in a group of radios is chosen.
    if (isRadio) all[target].click();
  });
  const all = [...container.querySelectorAll<HTMLElement>(selector)];
  // Before the container is in a page none of its controls is in sight: one is a stop all the same.
  stop(all.find(item => CHOSEN.some(chosen => item.matches(chosen))) ?? controls()[0] ?? all[0]);
}

/** Make one control the stop, as when a tab was chosen otherwise. */
export function rest(container: HTMLElement, selector: string, chosen: HTMLElement): void {
  for (const item of container.querySelectorAll<HTMLElement>(selector)) item.tabIndex = item === chosen ? 0 : -1;
}

function targetOf(key: string, place: number, count: number): number {
  switch (key) {
    case 'ArrowRight':
      return (place + 1) % count;
    case 'ArrowLeft':
      return (place + count - 1) % count;
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
    default:
      return -1;
  }
}

function isShown(element: HTMLElement): boolean {
  return element.offsetParent !== null || element.getClientRects().length > 0;
}
