/** What JupyterLab draws of two compared runs that a notebook keeps: no kernel is needed for it. */

import { COMPARISON_MIME, WIRE_VERSION } from './_generated/schema';
import { type ComparisonViewer, mountComparison, type Part } from './views/compare';
import { inflate, WireError } from './wire';

/** What is used of @lumino/widgets, which the page shares. */
interface Widget {
  readonly node: HTMLElement;
  addClass(name: string): void;
  dispose(): void;
}

interface MimeModel {
  readonly data: Readonly<Record<string, unknown>>;
}

interface Kept {
  readonly of: Part;
  readonly message: string;
}

/** Before the widgets' -10: of an output that has both, what needs no kernel is drawn. */
const RANK = -20;

/** The extension, made of the page's own Widget class. */
export function comparisonExtension(Base: new () => Widget): unknown {
  class ComparisonOutput extends Base {
    private viewer: ComparisonViewer | null = null;
    private shown: unknown;

    constructor() {
      super();
      this.addClass('nki-lab-output');
    }

    async renderModel(model: MimeModel): Promise<void> {
      const data = model.data[COMPARISON_MIME];
      if (data === this.shown) return;
      this.shown = data;
      this.viewer?.dispose();
      const viewer = (this.viewer = mountComparison(this.node));
      try {
        for (const { of, message } of messagesOf(data)) {
          const bytes = await inflate(message);
          if (this.viewer === viewer) viewer.accept(of, bytes);
        }
      } catch (error) {
        if (this.viewer === viewer) viewer.fail(error);
      }
    }

    override dispose(): void {
      this.viewer?.dispose();
      this.viewer = null;
      super.dispose();
    }
  }

  return {
    id: 'nki-lab:comparison',
    description: 'Draws comparisons of NKI kernels.',
    rendererFactory: {
      // User text enters the page as text nodes only, so an untrusted notebook may be drawn as well.
      safe: true,
      mimeTypes: [COMPARISON_MIME],
      createRenderer: () => new ComparisonOutput(),
    },
    rank: RANK,
    dataType: 'json',
  };
}

function messagesOf(data: unknown): readonly Kept[] {
  const { version, messages } = (data ?? {}) as { version?: unknown; messages?: unknown };
  if (version !== WIRE_VERSION)
    throw new WireError(
      `It is of version ${String(version)}, this page reads version ${WIRE_VERSION}. Run the cell again.`,
    );
  if (!Array.isArray(messages)) throw new WireError('The notebook keeps no message.');
  return messages as readonly Kept[];
}
