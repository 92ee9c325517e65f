// Bundles the views.
//
//   node build.mjs [--out folder]         what ships: static/ and labextension/ in nki_lab/widgets or another folder
//   node build.mjs --dev [--entry src/views/x/dev.ts] [--message run.nkiw]...
//                                         dev/<entry>.html, or one dev/<entry>-<message>.html for each message: pages
//                                         to look at while working, readable code with source map, message embedded
//
// A dev page gives its entry the message as the script element `nki-lab-message`, which `embedded()` of src/embedded.ts
// reads; an entry is any module that draws into document.body. Without --entry it is the stand-alone page.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateSync } from 'node:zlib';

import * as esbuild from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const shipped = values('--out')[0] ?? join(here, '..', 'nki_lab', 'widgets');

/** Style sheets become texts, without what only readers need; pictures become texts as they are. */
const cssAsText = minify => ({
  name: 'css-as-text',
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async file => {
      const css = readFileSync(file.path, 'utf8');
      const text = minify ? (await esbuild.transform(css, { loader: 'css', minify: true })).code : css;
      return { contents: text, loader: 'text' };
    });
  },
});

const options = dev => ({
  absWorkingDir: here,
  bundle: true,
  charset: 'utf8',
  target: ['es2022'],
  minify: !dev,
  sourcemap: dev ? 'inline' : false,
  legalComments: 'none',
  logLevel: 'warning',
  loader: { '.svg': 'text' },
  plugins: [cssAsText(!dev)],
});

/** Entry, form and place of the bundles that Python hands to pages. */
const BUNDLES = [
  // The page runs it as a plain script, so that it works from a file.
  { entry: 'src/standalone.ts', format: 'iife', file: join(shipped, 'static', 'visualizer.js') },
  { entry: 'src/widget.ts', format: 'esm', file: join(shipped, 'static', 'widget.js') },
  { entry: 'src/comparison_page.ts', format: 'iife', file: join(shipped, 'static', 'comparison.js') },
  { entry: 'src/comparison_widget.ts', format: 'esm', file: join(shipped, 'static', 'comparison_widget.js') },
  { entry: 'src/loader.ts', format: 'esm', file: join(shipped, 'static', 'loader.js') },
];

async function build() {
  for (const { entry, format, file } of BUNDLES)
    await esbuild.build({ ...options(false), entryPoints: [entry], format, outfile: file });
  await buildExtension(join(shipped, 'labextension'));
}

/** The JupyterLab extension: one script, whose name changes with its content because browsers keep it, and package.json. */
async function buildExtension(folder) {
  const entryPoints = ['src/labextension.ts'];
  const made = await esbuild.build({ ...options(false), entryPoints, format: 'iife', write: false });
  const script = made.outputFiles[0].contents;
  const load = `static/remoteEntry.${createHash('sha256').update(script).digest('hex').slice(0, 16)}.js`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'static'), { recursive: true });
  writeFileSync(join(folder, load), script);
  mkdirSync(join(folder, 'schemas', 'nki-lab'), { recursive: true });
  writeFileSync(join(folder, 'schemas', 'nki-lab', 'plugin.json'), `${JSON.stringify(settings(), null, 2)}\n`);
  const { name, version, description, license } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
  const _build = { load, extension: './extension', mimeExtension: './mimeExtension' };
  const jupyterlab = { extension: true, mimeExtension: true, outputDir: '.', _build };
  writeFileSync(
    join(folder, 'package.json'),
    `${JSON.stringify({ name, version, description, license, jupyterlab }, null, 2)}\n`,
  );
}

/** JupyterLab's schema of the plugin: the settings of the language server and of the panel, and where commands stand. */
function settings() {
  const read = file => JSON.parse(readFileSync(join(here, 'src', file), 'utf8'));
  const { properties } = read('_generated/settings.json');
  const places = read('lab/places.json');
  const targets = properties.target.enum.map(target => ({ command: 'nki-lab:target', args: { target } }));
  const fill = items =>
    items.map(item =>
      item.submenu?.id === 'nki-lab-targets' ? { ...item, submenu: { ...item.submenu, items: targets } } : item,
    );
  places['jupyter.lab.menus'].main = places['jupyter.lab.menus'].main.map(menu => ({
    ...menu,
    items: fill(menu.items),
  }));
  const panel = read('panel/settings.json');
  return { ...places, properties: { ...properties, ...panel }, additionalProperties: false, type: 'object' };
}

function page(script, message) {
  const encoded = message ? deflateSync(readFileSync(message)).toString('base64') : '';
  return `<!doctype html>
<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>dev</title></head>
<body>
<script type="text/plain" id="nki-lab-message">${encoded}</script>
<script>${script.replaceAll('</script', '<\\/script')}</script>
</body></html>
`;
}

async function dev(entry, messages) {
  const made = await esbuild.build({ ...options(true), entryPoints: [entry], format: 'iife', write: false });
  const script = made.outputFiles[0].text;
  const name = entry
    .replace(/^src\//, '')
    .replace(/\.ts$/, '')
    .replaceAll('/', '-');
  mkdirSync(join(here, 'dev'), { recursive: true });
  for (const message of messages.length ? messages : ['']) {
    const suffix = message ? `-${basename(message, '.nkiw')}` : '';
    const file = join(here, 'dev', `${name}${suffix}.html`);
    writeFileSync(file, page(script, message));
    console.log(file);
  }
}

function values(name) {
  return process.argv.flatMap((word, place) => (word === name ? [process.argv[place + 1]] : []));
}

if (process.argv.includes('--dev')) await dev(values('--entry')[0] ?? 'src/standalone.ts', values('--message'));
else await build();
