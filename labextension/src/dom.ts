/** Elements. Text is always a text node, so that a user's names can never be markup. */

export type Child = Node | string | number | null | undefined | false;

export interface Attributes {
  class?: string;
  /** Custom properties and others, in CSS spelling. */
  style?: Readonly<Record<string, string>>;
  on?: { readonly [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
  /** Any other attribute: true is an empty one, false and null none. */
  [name: string]: unknown;
}

/** An element with attributes and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'style') setStyle(element, value as Record<string, string>);
    else if (name === 'on') listen(element, value as Record<string, EventListener>);
    else setAttribute(element, name, value);
  }
  append(element, children);
  return element;
}

/** Set an attribute if it differs: true is an empty one, false, null and undefined take it away. */
export function setAttribute(element: Element, name: string, value: unknown): void {
  if (value === false || value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : `${value as string | number}`;
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Set an element's text if it differs. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Set properties of an element's style. */
export function setStyle(element: HTMLElement | SVGElement, style: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
}

/** Put children in place of what an element has. */
export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === 'number' ? String(child) : child);
  }
}

function listen(element: Element, listeners: Readonly<Record<string, EventListener>>): void {
  for (const [type, listener] of Object.entries(listeners)) element.addEventListener(type, listener);
}

const SVG = 'http://www.w3.org/2000/svg';

/** An SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | number>> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  append(element, children);
  return element;
}

let numbered = 0;

/** An id that no other element of the page has. */
export function uniqueId(prefix: string): string {
  numbered += 1;
  return `nki-${prefix}-${numbered}`;
}
