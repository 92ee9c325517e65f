/** Shows the bodies of `%%nki` cells to language servers. */

const MAGIC = /^%%nki\b/;

interface Position {
  readonly line: number;
  readonly column: number;
}

/** A part of a cell in another language, as @jupyterlab/lsp wants it. */
export interface ForeignCode {
  readonly hostCode: string;
  readonly foreignCode: string;
  readonly range: { readonly start: Position; readonly end: Position };
  readonly virtualShift: null;
}

/** Takes everything below the magic line. Lines and columns of the cell stay what they are: the language server gets
 * the body, and the virtual document knows where it begins. */
export const extractor = {
  language: 'nki',
  // All cells of a notebook are one document: what one defines another may use.
  standalone: false,
  fileExtension: 'py',
  cellType: ['code'],
  hasForeignCode: (code: string, cellType: string): boolean => cellType === 'code' && MAGIC.test(code),
  extractForeignCode(code: string): ForeignCode[] {
    const lines = code.split('\n');
    const last = lines[lines.length - 1];
    return [
      {
        hostCode: '',
        foreignCode: lines.slice(1).join('\n'),
        range: {
          start: { line: 1, column: 0 },
          end: { line: Math.max(1, lines.length - 1), column: lines.length > 1 ? last.length : 0 },
        },
        virtualShift: null,
      },
    ];
  },
};

interface Extractors {
  register(given: typeof extractor, host: string): void;
}

/** The plugin; `token` is that of the extractors' manager, undefined where the page has no language servers. */
export function plugin(token: unknown): unknown {
  return {
    id: 'nki-lab:plugin',
    description: 'Shows %%nki cells to language servers.',
    autoStart: true,
    optional: token === undefined ? [] : [token],
    activate: (_: unknown, extractors?: Extractors | null): void => extractors?.register(extractor, 'python'),
  };
}
