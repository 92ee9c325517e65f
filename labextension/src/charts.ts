/** The charts of a summary: bokeh's JSON and, where the page has none, bokeh's script, both from the kernel. */

/** Charts, or the reason why there are none. */
export interface ChartsAnswer {
  readonly version?: string;
  readonly items?: readonly unknown[];
  readonly text?: string;
}

/** Where the charts of a run come from. `version` is that of the bokeh which the page has, '' without one. */
export interface ChartsHost {
  ask(version: string, answer: (told: ChartsAnswer, script: BlobPart | null) => void): void;
}

interface Drawing {
  readonly version: string;
  readonly embed: { embed_item(item: unknown, target: HTMLElement): Promise<unknown> };
}

const NAME = Symbol.for('nki-lab.bokeh');
const page = globalThis as { Bokeh?: Drawing; define?: { amd?: unknown }; [NAME]?: Drawing };

/** What draws in this page: ours, else that of another extension. */
function present(): Drawing | undefined {
  return page[NAME] ?? page.Bokeh;
}

/** Run bokeh's script in the page; what the page had under its name stays. */
async function run(script: BlobPart): Promise<void> {
  const before = page.Bokeh;
  const amd = page.define?.amd;
  const address = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
  const element = document.createElement('script');
  // Where there is a loader of modules the script would hand itself to that.
  if (page.define !== undefined) delete page.define.amd;
  try {
    await new Promise((resolve, reject) => {
      element.addEventListener('load', resolve);
      element.addEventListener('error', () => reject(new Error('The page does not allow the script of the charts.')));
      element.src = address;
      document.head.append(element);
    });
  } finally {
    if (page.define !== undefined && amd !== undefined) page.define.amd = amd;
    element.remove();
    URL.revokeObjectURL(address);
  }
  page[NAME] = page.Bokeh;
  if (before !== undefined) page.Bokeh = before;
}

/** Fill an element with the charts of a host; rejects with the reason where that does not work. */
export async function drawCharts(host: ChartsHost, into: HTMLElement): Promise<void> {
  const { told, script } = await new Promise<{ told: ChartsAnswer; script: BlobPart | null }>(resolve =>
    host.ask(present()?.version ?? '', (told, script) => resolve({ told, script })),
  );
  if (told.items === undefined) throw new Error(told.text ?? 'There are no charts of this run.');
  if (script !== null && present()?.version !== told.version) await run(script);
  const drawing = present();
  if (drawing === undefined) throw new Error('The script of the charts did not run.');
  for (const item of told.items) {
    const target = document.createElement('div');
    target.className = 'nki-chart';
    into.append(target);
    await drawing.embed.embed_item(item, target);
  }
}
