import { afterEach, describe, expect, it, vi } from 'vitest';

import type { Commands } from '../src/commands';
import { COMMANDS } from '../src/commands';
import { el } from '../src/dom';
import { BINDINGS, bindKeys, keyList } from '../src/keys';

const SUPPRESS = 'data-lm-suppress-shortcuts';

function setUp(): {
  root: HTMLElement;
  commands: Commands;
  outside: () => string[];
  leave: () => void;
  back: () => boolean;
} {
  const root = el('section', { tabindex: -1 }, el('button', {}, 'a'), el('input', {}), el('input', { type: 'range' }));
  const notebook = el('div', {}, root);
  document.body.append(notebook);
  const heard: string[] = [];
  notebook.addEventListener('keydown', event => heard.push(event.key));
  const commands = Object.fromEntries(COMMANDS.map(name => [name, vi.fn()])) as unknown as Commands;
  const leave = vi.fn();
  const back = vi.fn(() => true);
  ends.push(bindKeys({ root, commands, stepBack: back, leave }));
  return { root, commands, outside: () => heard, leave, back };
}

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
  document.body.replaceChildren();
});

function press(target: Element, key: string, more: KeyboardEventInit = {}): KeyboardEvent {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  target.dispatchEvent(event);
  return event;
}

describe('the keyboard', () => {
  it('has a key for every command', () => {
    expect(new Set(BINDINGS.map(binding => binding.command))).toEqual(new Set(COMMANDS));
  });

  it.each(BINDINGS.map(binding => [binding.keys[0], binding.command] as const))(
    'does with %j what %s says',
    (key, command) => {
      const { root, commands, outside } = setUp();
      expect(press(root, key).defaultPrevented).toBe(true);
      expect(commands[command]).toHaveBeenCalledOnce();
      expect(outside()).toEqual([]);
    },
  );

  it('takes letters with Caps Lock, and none with Ctrl', () => {
    const { root, commands, outside } = setUp();
    press(root, 'L');
    expect(commands.line).toHaveBeenCalledOnce();
    press(root, 's', { ctrlKey: true });
    expect(commands.zoomOut).not.toHaveBeenCalled();
    expect(outside()).toEqual(['s']);
  });

  it('keeps plain keys from JupyterLab, which looks for shortcuts first', () => {
    const { root } = setUp();
    press(root, 'a');
    expect(root.getAttribute(SUPPRESS)).toBe('true');
    press(root, 's', { ctrlKey: true });
    expect(root.hasAttribute(SUPPRESS)).toBe(false);
  });

  it('leaves a control its own keys', () => {
    const { root, commands } = setUp();
    const [button, text, slider] = [...root.children];
    press(button, ' ');
    press(text, 'a');
    press(slider, 'ArrowRight');
    for (const name of ['play', 'panLeft', 'forward'] as const) expect(commands[name]).not.toHaveBeenCalled();
    press(button, 'ArrowRight');
    press(slider, 'l');
    expect(commands.forward).toHaveBeenCalledOnce();
    expect(commands.line).toHaveBeenCalledOnce();
  });

  it('steps back with Escape, and leaves with the second one', () => {
    const { root, leave, back } = setUp();
    press(root, 'Escape');
    expect(back).toHaveBeenCalledOnce();
    expect(leave).not.toHaveBeenCalled();
    press(root, 'Escape');
    expect(leave).toHaveBeenCalledOnce();
  });

  it('does nothing elsewhere', () => {
    const { commands } = setUp();
    press(document.body, 'l');
    expect(commands.line).not.toHaveBeenCalled();
  });
});

describe('the list of keys', () => {
  it('names every key', () => {
    const list = keyList();
    expect(list.querySelectorAll('dt')).toHaveLength(BINDINGS.length + 1);
  });
});
