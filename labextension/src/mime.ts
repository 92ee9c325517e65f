/** What JupyterLab draws of runs that a notebook keeps: no kernel is needed for it. */

import { MIME } from './_generated/schema';
import { SavedOutput } from './saved/output';
import type { Bundle } from './saved/runs';

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
  readonly data: Bundle;
}

/** The extension, made of the page's own Widget class. */
export function mimeExtension({ Widget }: Lumino): unknown {
  class RunOutput extends Widget {
    private output: SavedOutput | null = null;
    private shown: unknown;

    constructor() {
      super();
      this.addClass('nki-lab-output');
    }

    async renderModel(model: MimeModel): Promise<void> {
      const data = model.data[MIME];
      if (data === this.shown) return;
      this.shown = data;
      this.output?.dispose();
      const output = (this.output = new SavedOutput(model.data));
      this.node.replaceChildren(output.node);
      // JupyterLab puts an output into its cell right after it asked to draw it.
      await Promise.resolve();
      if (this.output === output) await output.open();
    }

    override dispose(): void {
      this.output?.dispose();
      this.output = null;
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
