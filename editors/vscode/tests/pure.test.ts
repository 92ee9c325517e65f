import { chmodSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { anyUsesNki, usesNki } from '../src/detection';
import { installation, interpreter, isInside } from '../src/interpreter';
import { framed, lineOf, mayOpen } from '../src/page';

const nothing = { setting: '', ownSetting: '', active: '', fallback: '', ownFallback: '', path: '' };

function folder(): string {
  return mkdtempSync(join(tmpdir(), 'nki-lab-test-'));
}

function program(place: string): string {
  mkdirSync(place, { recursive: true });
  const path = join(place, 'python3');
  writeFileSync(path, '');
  chmodSync(path, 0o755);
  return path;
}

describe('detection', () => {
  test.each(['import nki', 'import numpy, nki.isa as nisa', '    from neuronxcc import nki', '%%nki\nx = 1'])(
    'finds NKI in %j',
    text => expect(usesNki(`${text}\n`)).toBe(true),
  );
  test.each(['import numpy', '# import nki', 'import nkix', 'x = "nki"', 'import os  # nki', '# %%nki'])(
    'finds none in %j',
    text => expect(usesNki(`${text}\n`)).toBe(false),
  );
  test('passes over files that cannot be read', async () => {
    const place = folder();
    writeFileSync(join(place, 'k.py'), 'import nki\n');
    expect(await anyUsesNki([place, join(place, 'missing.py')])).toBe(false);
    expect(await anyUsesNki([join(place, 'missing.py'), join(place, 'k.py')])).toBe(true);
  });
});

describe('the interpreter', () => {
  test('is the first one named', () => {
    const all = { ...nothing, setting: '/a', active: '/b', fallback: '/c' };
    expect(interpreter(all, [], true)).toBe('/a');
    expect(interpreter({ ...all, setting: '' }, [], true)).toBe('/b');
    expect(interpreter({ ...all, setting: '', active: '' }, [], true)).toBe('/c');
  });
  test('of a trusted workspace may lie in it', () => {
    expect(interpreter({ ...nothing, setting: '.venv/bin/python' }, ['/w'], true)).toBe('/w/.venv/bin/python');
  });
  test('of an untrusted workspace is the own one of the user', () => {
    const named = { ...nothing, setting: '/evil', active: '/evil', fallback: '/evil' };
    expect(interpreter(named, ['/w'], false)).toBeUndefined();
    expect(interpreter({ ...named, ownSetting: '/own' }, ['/w'], false)).toBe('/own');
    expect(interpreter({ ...named, ownSetting: '/w/python' }, ['/w'], false)).toBeUndefined();
    expect(interpreter({ ...named, ownSetting: 'python' }, ['/w'], false)).toBeUndefined();
  });
  test('on PATH is never one of the workspace', () => {
    const workspace = folder();
    program(join(workspace, 'bin'));
    const good = program(folder());
    const path = ['bin', join(workspace, 'bin'), join(good, '..')].join(':');
    for (const trusted of [true, false]) expect(interpreter({ ...nothing, path }, [workspace], trusted)).toBe(good);
  });
  test('behind a link into the workspace is in it', () => {
    const workspace = folder();
    program(join(workspace, 'bin'));
    const link = join(folder(), 'link');
    symlinkSync(join(workspace, 'bin'), link);
    expect(isInside(join(link, 'python3'), workspace)).toBe(true);
  });
  test('is quoted in the command that installs', () => {
    expect(installation('/a b/python')).toBe("'/a b/python' -m pip install 'nki-lab[lsp]'");
  });
});

describe('a page in a webview', () => {
  const page = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><script>$&</script>`;
  test('runs only its own scripts', () => {
    const text = framed(page, 'abc');
    expect(text).toContain("script-src 'nonce-abc'");
    expect(text).toContain('<script nonce="abc">$&</script>');
    expect(text).not.toMatch(/script-src[^;]*unsafe-inline/);
  });
  test('hands the lines of clicks to the extension before it runs anything else', () => {
    const text = framed(page, 'abc');
    expect(text.indexOf('nki-lab-line')).toBeGreaterThan(0);
    expect(text.indexOf('nki-lab-line')).toBeLessThan(text.indexOf('$&'));
    expect(text.match(/<script nonce="abc">/g)).toHaveLength(2);
  });
  test.each([null, 'text', {}, { path: 1, line: 1 }, { path: '/a', line: 0 }, { path: '/a', line: 1.5 }])(
    'tells no line by %j',
    message => expect(lineOf(message)).toBeUndefined(),
  );
  test('tells a line', () => {
    expect(lineOf({ path: '/a/k.py', line: 3, more: 1 })).toEqual({ path: '/a/k.py', line: 3 });
  });
  test('opens files of the workspace and open ones, and no other', () => {
    expect(mayOpen('/w/k.py', ['/w'], [])).toBe(true);
    expect(mayOpen('/w/../etc/passwd', ['/w'], [])).toBe(false);
    expect(mayOpen('/other/k.py', ['/w'], ['/other/k.py'])).toBe(true);
    expect(mayOpen('k.py', ['/w'], [])).toBe(false);
  });
  test('is refused without a policy', () => expect(() => framed('<p>', 'abc')).toThrow('policy'));
});
