// What a designer would see at once, as a function for the page: the sizes of a visualizer's rows against the visual
// language, texts that are cut or lie over each other, texts that are hard to read, targets that are hard to hit.
() => {
  const root = document.querySelector('.nki-visualizer');
  const problems = [];
  const report = (what, element, more = '') => {
    const text = (element.textContent || '').trim().replace(/\s+/g, ' ').slice(0, 40);
    problems.push(`${what}: ${element.className || element.tagName} "${text}"${more ? ` ${more}` : ''}`);
  };
  const isShown = element => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const round = value => Math.round(10 * value) / 10;

  // -- Sizes ---------------------------------------------------------------------------------------------------------
  const SIZES = [
    ['.nki-facts', 0, 100, 'narrow'],
    ['.nki-transport', 40, 40],
    ['.nki-panel-head:not(.nki-table-bar)', 28, 28],
    ['.nki-code-lines .nki-line', 19, 19],
    ['.nki-virtual-rows > .nki-row', 24, 24],
    ['.nki-engine', 24, 24],
    ['.nki-tl-overview', 37, 37],
    ['.nki-tl-cell-axis', 22, 22],
    ['.nki-tl-cell-path', 16, 16],
    ['.nki-tl-cell-lane', 20, 32],
    ['.nki-tl-cell-counter', 30, 36],
  ];
  const NARROW = root.dataset.layout === 'narrow' || root.dataset.layout === 'medium';
  for (const [selector, least, most, unless] of SIZES) {
    if (unless && NARROW) continue;
    for (const element of root.querySelectorAll(selector)) {
      if (!isShown(element)) continue;
      const { height } = element.getBoundingClientRect();
      if (height < least - 0.6 || height > most + 0.6) report('height', element, `${round(height)} px, not ${least} to ${most}`);
    }
  }
  const gutters = [...root.querySelectorAll('.nki-tl-gutter')].filter(isShown);
  for (const gutter of gutters) {
    const wanted = root.dataset.layout === 'narrow' ? 118 : 132;
    const { width } = gutter.getBoundingClientRect();
    if (Math.abs(width - wanted) > 0.6) report('width', gutter, `${round(width)} px, not ${wanted}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) report('wider than the page', root);

  // -- Texts ---------------------------------------------------------------------------------------------------------
  const texts = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('.nki-live, dialog, option, svg, [class*="-tree"]') || !isShown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width > 1 && box.height > 1) texts.push({ node, element, box });
  }
  /** The part of a box that its ancestors let through; reports what is cut for good. */
  const visible = ({ element, box }) => {
    let { left, right, top, bottom } = box;
    let scrolls = false;
    for (let at = element; at && root.contains(at); at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
      const edge = at.getBoundingClientRect();
      scrolls ||= /auto|scroll/.test(style.overflowX + style.overflowY);
      // A line may leave out a last word whole where it has no room; its title says it.
      const isOut = style.flexWrap === 'wrap' && (top >= edge.bottom - 3 || bottom <= edge.top + 3);
      const told = (style.textOverflow === 'ellipsis' || isOut) && at.closest('[title]');
      if (!scrolls && !told && at !== root) {
        if (left < edge.left - 1.5 || right > edge.right + 1.5) report('cut', element, `${round(right - edge.right)} px beyond ${at.className}`);
        // Half a line's leading is not text.
        else if (bottom - 3 > edge.bottom || top + 3 < edge.top) report('cut', element, `${round(bottom - edge.bottom)} px below ${at.className}`);
      }
      left = Math.max(left, edge.left);
      right = Math.min(right, edge.right);
      top = Math.max(top, edge.top);
      bottom = Math.min(bottom, edge.bottom);
    }
    return right - left > 1 && bottom - top > 1 ? { left, right, top, bottom } : null;
  };
  const shown = texts.map(text => ({ ...text, part: visible(text) })).filter(text => text.part);

  // Lines of text are taller than their letters: only what lies deeper than this is over another.
  const LEADING = 3;
  shown.sort((one, other) => one.part.top - other.part.top);
  for (let index = 0; index < shown.length; index += 1) {
    const one = shown[index];
    for (let next = index + 1; next < shown.length && shown[next].part.top < one.part.bottom - LEADING; next += 1) {
      const other = shown[next];
      if (one.node === other.node || isOver(one.element) || isOver(other.element)) continue;
      const width = Math.min(one.part.right, other.part.right) - Math.max(one.part.left, other.part.left);
      const height = Math.min(one.part.bottom, other.part.bottom) - Math.max(one.part.top, other.part.top);
      if (width > 1.5 && height > LEADING) report('overlaps', one.element, `and "${other.node.data.trim().slice(0, 30)}" by ${round(width)} px`);
    }
  }
  /** Whether an element lies above others on a ground of its own: a card, a head that stays in sight. */
  function isOver(element) {
    for (let at = element; at && at !== root; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (/absolute|sticky|fixed/.test(style.position) && parse(style.backgroundColor)[3] > 0.8) return true;
    }
    return false;
  }

  // -- Contrast ------------------------------------------------------------------------------------------------------
  for (const { element } of new Map(shown.map(text => [text.element, text])).values()) {
    if (element.closest('[disabled]')) continue;
    const ground = groundOf(element);
    if (!ground) continue;
    const found = contrast(over(parse(getComputedStyle(element).color), ground), ground);
    if (found < 4.5) report('contrast', element, `${round(found)}`);
  }
  /** What is behind a text; null where it is a picture. */
  function groundOf(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== 'none') return null;
      const colour = parse(style.backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reduceRight((ground, colour) => over(colour, ground), [255, 255, 255, 1]);
  }
  function over([red, green, blue, alpha], ground) {
    return [red, green, blue].map((part, index) => part * alpha + ground[index] * (1 - alpha)).concat(1);
  }
  function parse(colour) {
    const numbers = (colour.match(/[\d.]+(e-?\d+)?/g) || []).map(Number);
    const scale = colour.startsWith('color(srgb') ? 255 : 1;
    const [red = 0, green = 0, blue = 0, alpha = 1] = numbers;
    return [red * scale, green * scale, blue * scale, alpha];
  }
  function contrast(one, other) {
    const light = ([red, green, blue]) =>
      [red, green, blue]
        .map(part => part / 255)
        .map(part => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }

  // -- Targets -------------------------------------------------------------------------------------------------------
  for (const control of root.querySelectorAll('button, select, input, [role="slider"]')) {
    // A link in a sentence may be as tall as its line; a field stands in a box that takes the pointer too.
    if (!isShown(control) || control.closest('dialog, p, dd, .nki-filter-box')) continue;
    const { width, height } = control.getBoundingClientRect();
    if (width < 23.5 || height < 23.5) report('small target', control, `${round(width)} × ${round(height)} px`);
  }
  return [...new Set(problems)];
}
