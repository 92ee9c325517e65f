/** Style sheets of the views: one element each in the page, however many visualizers there are. */

/** Put a style sheet into the document, or into the shadow tree, that `near` is in. */
export function useStyle(name: string, css: string, near: Node = document): void {
  const place = near.getRootNode();
  const holder = place instanceof ShadowRoot ? place : document.head;
  const found = [...holder.querySelectorAll<HTMLStyleElement>('style[data-nki]')].find(
    style => style.dataset.nki === name,
  );
  if (found) {
    if (found.textContent !== css) found.textContent = css;
    return;
  }
  const style = document.createElement('style');
  style.dataset.nki = name;
  style.textContent = css;
  holder.append(style);
}
