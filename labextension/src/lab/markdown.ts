/** Documentation as JupyterLab renders Markdown: its own renderer, which makes untrusted text harmless. */

export interface Rendered {
  readonly node: HTMLElement;
  dispose(): void;
}

export type Render = (markdown: string) => Rendered;

/** What is used of JupyterLab's renderers. */
export interface Renderers {
  createModel(options: { data: Record<string, string>; trusted: boolean }): unknown;
  createRenderer(mime: string): Rendered & { renderModel(model: unknown): Promise<void> };
}

const MIME = 'text/markdown';

/** The page's renderer; without one, the text as it is. */
export function renderWith(renderers: Renderers | null): Render {
  return markdown => {
    if (renderers === null) {
      const node = document.createElement('pre');
      node.textContent = markdown;
      return { node, dispose: () => undefined };
    }
    const made = renderers.createRenderer(MIME);
    void made.renderModel(renderers.createModel({ data: { [MIME]: markdown }, trusted: false }));
    made.node.classList.add('nki-lab-prose');
    return made;
  };
}

/** An element with a class and a text. */
export function element(tag: string, name: string, text = ''): HTMLElement {
  const node = document.createElement(tag);
  node.className = name;
  node.textContent = text;
  return node;
}
