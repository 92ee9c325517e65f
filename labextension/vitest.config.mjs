import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { defineConfig } from 'vitest/config';

export default defineConfig({
  // Style sheets and pictures are texts here, as build.mjs makes them. Their ids get another ending than .css, or else the ordinary
  // handling of style sheets takes them over and empties them.
  plugins: [
    {
      name: 'css-as-text',
      enforce: 'pre',
      resolveId(source, importer) {
        return /\.(css|svg)$/.test(source) && importer !== undefined
          ? `\0${join(dirname(importer), source)}.txt`
          : undefined;
      },
      load(id) {
        const file = /^\0(.*\.(?:css|svg))\.txt$/.exec(id)?.[1];
        return file === undefined ? undefined : `export default ${JSON.stringify(readFileSync(file, 'utf8'))};`;
      },
    },
  ],
  test: {
    environment: 'happy-dom',
    include: ['src/**/*.test.ts', 'tests/**/*.test.ts'],
    restoreMocks: true,
    testTimeout: 30_000, // a busy machine is no failure
  },
});
