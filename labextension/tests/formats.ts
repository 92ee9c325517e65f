/** Prints times, sizes, shares and numbers as a page writes them, as JSON: tests/wire/test_formats.py runs this with node. */

import * as format from '../src/format';

declare const process: { readonly argv: readonly string[]; readonly stdout: { write(text: string): void } };
declare const nodeRead: (path: string) => Uint8Array;

interface Given {
  readonly times: readonly number[];
  readonly sizes: readonly number[];
  readonly shares: readonly number[];
  readonly significant: readonly number[];
}

const given = JSON.parse(new TextDecoder().decode(nodeRead(process.argv[2]))) as Given;
process.stdout.write(
  JSON.stringify([
    given.times.map(format.time),
    given.sizes.map(format.bytes),
    given.shares.map(format.percent),
    given.significant.map(format.significant),
  ]),
);
