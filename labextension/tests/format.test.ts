import { describe, expect, it } from 'vitest';

import * as format from '../src/format';

describe('times', () => {
  it.each([
    [0, '0 ns'],
    [213_400, '213 ns'],
    [999_400, '999 ns'],
    [999_600, '1.00 µs'],
    [32_880_000, '32.88 µs'],
    [94_570_000, '94.57 µs'],
    [1_234_567_890_000, '1.23 s'],
    [5_000_000_000_000_000, '5\u202f000.00 s'],
    [-1_320_000, '\u22121.32 µs'],
    [1_005_000, '1.01 µs'],
  ])('%d ps is %s', (ps, text) => {
    expect(format.time(ps)).toBe(text);
  });

  it('carries a sign in differences', () => {
    expect(format.timeDifference(1_200_000)).toBe('+1.20 µs');
    expect(format.timeDifference(-14_000)).toBe('\u221214 ns');
    expect(format.timeDifference(0)).toBe('0 ns');
  });

  it('is exact in details', () => {
    expect(format.timeExact(32_880_125)).toBe('32\u202f880.125 ns');
    expect(format.timeExact(213_400)).toBe('213.4 ns');
    expect(format.timeExact(-1000)).toBe('\u22121 ns');
  });
});

describe('sizes', () => {
  it.each([
    [0, '0 B'],
    [512, '512 B'],
    [1024, '1 KiB'],
    [4608, '4.5 KiB'],
    [196_608, '192 KiB'],
    [4_330_619, '4.13 MiB'],
    [3 * 1024 ** 3, '3 GiB'],
  ])('%d bytes are %s', (size, text) => {
    expect(format.bytes(size)).toBe(text);
  });

  it('names the unit of a part and its whole once', () => {
    expect(format.bytesOf(4608, 196_608)).toBe('4.5 of 192 KiB');
    expect(format.bytesOf(0, 16_384)).toBe('0 of 16 KiB');
    expect(format.bytesOf(960, 229_376)).toBe('960 B of 224 KiB');
  });

  it('gives rates in decimal units', () => {
    expect(format.rate(46_000, 1_000_000)).toBe('46 GB/s');
    expect(format.rate(1, 0)).toBe('0 B/s');
  });
});

describe('shares', () => {
  it.each([
    [0, '0 %'],
    [0.0004, '< 0.1 %'],
    [0.072, '7.2 %'],
    [0.0996, '10 %'],
    [0.48, '48 %'],
    [1, '100 %'],
  ])('%d is %s', (share, text) => {
    expect(format.percent(share)).toBe(text);
  });

  it('signs changes', () => {
    expect(format.points(0.012)).toBe('+1.2');
    expect(format.points(-0.004)).toBe('\u22120.4');
  });
});

describe('counts', () => {
  it.each([
    [640, '640', '640'],
    [1482, '1\u202f482', '1.5 k'],
    [84_000, '84\u202f000', '84 k'],
    [9_900_000, '9\u202f900\u202f000', '9.9 M'],
    [4.4e12, '4\u202f400\u202f000\u202f000\u202f000', '4.4 T'],
  ])('%d is %s or %s', (value, long, short) => {
    expect(format.count(value)).toBe(long);
    expect(format.shortCount(value)).toBe(short);
  });

  it('takes the right number of the noun', () => {
    expect(format.plural(1, 'instruction')).toBe('1 instruction');
    expect(format.plural(2, 'iteration', 'iterations')).toBe('2 iterations');
  });
});

describe('places', () => {
  it('includes both ends', () => {
    expect(format.range(0, 127)).toBe('0\u2013127');
    expect(format.addressRange(0x10000, 0x4000)).toBe('0x10000\u20130x13FFF');
    expect(format.range(3, 3)).toBe('3');
  });

  it('cuts a path to its file', () => {
    expect(format.fileName('/a/b/softmax.py')).toBe('softmax.py');
    expect(format.fileName('C:\\a\\b.py')).toBe('b.py');
  });
});

describe('values', () => {
  it.each([
    [0.021345, '0.0213'],
    [4.5, '4.5'],
    [1234, '1\u202f234'],
    [1e-8, '1e-8'],
    [Number.NaN, 'NaN'],
    [-Infinity, '\u2212Inf'],
  ])('%d has three significant digits: %s', (value, text) => {
    expect(format.significant(value)).toBe(text);
  });
});
