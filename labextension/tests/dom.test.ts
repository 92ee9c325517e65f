import { describe, expect, it, vi } from 'vitest';

import { el, replace, setAttribute, setText, svg, uniqueId } from '../src/dom';

describe('el', () => {
  it('makes text nodes of texts, whatever they say', () => {
    const element = el('p', {}, '<b onclick="x">', 5, null, false);
    expect(element.childNodes).toHaveLength(2);
    expect(element.querySelector('b')).toBeNull();
    expect(element.textContent).toBe('<b onclick="x">5');
  });

  it('sets attributes, styles and listeners', () => {
    const click = vi.fn();
    const element = el('button', {
      class: 'a',
      autofocus: true,
      hidden: false,
      style: { '--x': '3px' },
      on: { click },
    });
    expect(element.className).toBe('a');
    expect(element.hasAttribute('hidden')).toBe(false);
    expect(element.getAttribute('autofocus')).toBe('');
    expect(element.style.getPropertyValue('--x')).toBe('3px');
    element.dispatchEvent(new MouseEvent('click'));
    expect(click).toHaveBeenCalledOnce();
  });
});

describe('changes', () => {
  it('take attributes away and put children in place', () => {
    const element = el('div', { title: 'a' }, 'one', el('i'));
    setAttribute(element, 'title', null);
    replace(element, 'two');
    expect(element.hasAttribute('title')).toBe(false);
    expect(element.childNodes).toHaveLength(1);
    setText(element, 'three');
    expect(element.textContent).toBe('three');
  });
});

describe('svg', () => {
  it('makes elements of its namespace', () => {
    expect(svg('path', { d: 'M0 0' }).namespaceURI).toBe('http://www.w3.org/2000/svg');
  });
});

describe('uniqueId', () => {
  it('never says the same twice', () => {
    expect(uniqueId('tab')).not.toBe(uniqueId('tab'));
  });
});
