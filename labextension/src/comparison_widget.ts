/** The widget of two runs (anywidget). nki_lab/widgets/comparison.py is the other side and says what is sent. */

import { MessageParts } from './message_parts';
import type { MessagePart } from './message_parts';
import { mountComparison, type Part } from './views/compare';
import type { Model } from './widget';

interface Content extends Partial<MessagePart> {
  readonly kind?: string;
  readonly text?: string;
  readonly of?: Part;
  /** Which view asked. */
  readonly view?: number;
}

let views = 0;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const view = ++views;
  const parts = new MessageParts();
  const ask = (content: object): boolean => {
    try {
      model.send({ ...content, view });
      return true;
    } catch {
      return false;
    }
  };
  const viewer = mountComparison(el, {
    requestSteps: (of, first, count) => void ask({ kind: 'steps', of, first, count }),
  });
  const take = (content: Content, buffers: readonly (ArrayBuffer | ArrayBufferView)[] = []): void => {
    if (content.view !== view) return;
    if (content.kind === 'failed') viewer.fail(content.text ?? 'The kernel could not send it.');
    if (content.kind !== 'part' || content.of === undefined || buffers.length === 0) return;
    const { whole, read } = parts.add(content as MessagePart, buffers[0]);
    if (whole === null) viewer.progress(read, content.total ?? 0);
    else viewer.accept(content.of, whole);
  };
  model.on('msg:custom', take);
  if (!ask({ kind: 'load' })) viewer.fail('The kernel is gone. Run the cell again.');
  return () => {
    model.off('msg:custom', take);
    viewer.dispose();
  };
}

export default { render };
