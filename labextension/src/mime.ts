/** What JupyterLab draws of a run that a notebook keeps: no kernel is needed for it. */

import { MIME, WIRE_VERSION } from './_generated/schema';
import { Feed } from './feed';
import { KeptValues } from './values_host';
import { mount } from './visualizer';
import type { Visualizer } from './visualizer';
import { inflate, WireError } from './wire';

/** Before the widgets' -10: of an output that has both, what needs no kernel is drawn. */
const RANK = -20;

/** What is used of @lumino/widgets, which the page shares. */
interface Widget {
  readonly node: HTMLElement;
  addClass(name: string): void;
  dispose(): void;
}

export interface Lumino {
  readonly Widget: new () => Widget;
}

interface MimeModel {
  readonly data: Readonly<Record<string, unknown>>;
}

/** The extension, made of the page's own Widget class. */
export function mimeExtension({ Widget }: Lumino): unknown {
  class RunOutput extends Widget {
    private visualizer: Visualizer | null = null;
    private shown: unknown;

    constructor() {
      super();
      this.addClass('nki-lab-output');
    }

    async renderModel(model: MimeModel): Promise<void> {
      const data = model.data[MIME];
      if (data === this.shown) return;
      this.shown = data;
      this.visualizer?.dispose();
      const values = new KeptValues();
      const visualizer = (this.visualizer = mount(this.node, null, { values }));
      const feed = new Feed(null);
      feed.attach(visualizer);
      try {
        const bytes = await inflate(messageOf(data));
        await values.add(keptOf(data));
        if (this.visualizer === visualizer) feed.accept(bytes);
      } catch (error) {
        if (this.visualizer === visualizer) feed.fail(error);
      }
    }

    override dispose(): void {
      this.visualizer?.dispose();
      this.visualizer = null;
      super.dispose();
    }
  }

  return {
    id: 'nki-lab:mime',
    description: 'Draws runs of NKI kernels.',
    rendererFactory: {
      // User text enters the page as text nodes only, so an untrusted notebook may be drawn as well.
      safe: true,
      mimeTypes: [MIME],
      createRenderer: () => new RunOutput(),
    },
    rank: RANK,
    dataType: 'json',
  };
}

/** The values of tiles that the notebook keeps. */
function keptOf(data: unknown): readonly unknown[] {
  const { values } = (data ?? {}) as { values?: unknown };
  return Array.isArray(values) ? values : [];
}

function messageOf(data: unknown): string {
  const { version, message } = (data ?? {}) as { version?: unknown; message?: unknown };
  if (version !== WIRE_VERSION)
    throw new WireError(
      `It is of version ${String(version)}, this page reads version ${WIRE_VERSION}. Run the cell again.`,
    );
  if (typeof message !== 'string') throw new WireError('The notebook keeps no message.');
  return message;
}
