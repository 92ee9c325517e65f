/** The parts of the language server protocol that the client uses, as the protocol names them. */

export interface Position {
  readonly line: number;
  /** UTF-16 units, as strings of the page count. */
  readonly character: number;
}

export interface Range {
  readonly start: Position;
  readonly end: Position;
}

export interface TextEdit {
  readonly range: Range;
  readonly newText: string;
}

export interface WorkspaceEdit {
  readonly changes?: Readonly<Record<string, readonly TextEdit[]>>;
}

export interface Diagnostic {
  readonly range: Range;
  /** 1 error, 2 warning, 3 information, 4 hint. */
  readonly severity?: number;
  readonly code?: string;
  readonly codeDescription?: { readonly href: string };
  readonly source?: string;
  readonly message: string;
  readonly data?: unknown;
}

export interface Command {
  readonly title: string;
  readonly command: string;
  readonly arguments?: readonly unknown[];
}

export interface CodeAction {
  readonly title: string;
  readonly kind?: string;
  readonly isPreferred?: boolean;
  readonly edit?: WorkspaceEdit;
  readonly command?: Command;
}

export interface Markup {
  readonly kind: string;
  readonly value: string;
}

export interface InlayHint {
  readonly position: Position;
  readonly label: string;
  readonly tooltip?: string | Markup;
}

export interface CompletionItem {
  readonly label: string;
  readonly kind?: number;
  readonly detail?: string;
  readonly labelDetails?: { readonly detail?: string; readonly description?: string };
  readonly documentation?: string | Markup;
  readonly tags?: readonly number[];
  readonly sortText?: string;
  readonly filterText?: string;
  readonly insertText?: string;
  readonly textEdit?: TextEdit;
  readonly data?: unknown;
}

export interface CompletionList {
  readonly items: readonly CompletionItem[];
  readonly itemDefaults?: { readonly editRange?: Range };
}

export interface ParameterInformation {
  readonly label: readonly [number, number];
  readonly documentation?: string | Markup;
}

export interface SignatureHelp {
  readonly signatures: readonly {
    readonly label: string;
    readonly documentation?: string | Markup;
    readonly parameters?: readonly ParameterInformation[];
    readonly activeParameter?: number;
  }[];
  readonly activeParameter?: number;
}

/** What the numbers of semantic tokens stand for. */
export interface Legend {
  readonly tokenTypes: readonly string[];
  readonly tokenModifiers: readonly string[];
}

export interface SemanticTokens {
  /** Five for each: lines and characters since the one before, length, type, modifiers as bits. */
  readonly data: readonly number[];
}

/** What the server says that it can do, as far as that is used. */
export interface Initialized {
  readonly capabilities: { readonly semanticTokensProvider?: { readonly legend: Legend } };
}

/** The text of documentation, which is Markdown either way. */
export function textOf(documentation: string | Markup | undefined): string {
  return typeof documentation === 'string' ? documentation : (documentation?.value ?? '');
}

/** What the client can do, as `initialize` tells the server. Findings are pushed; shapes and colours have the page ask again. */
export const ABILITIES = {
  general: { positionEncodings: ['utf-16'] },
  notebookDocument: { synchronization: {} },
  textDocument: {
    publishDiagnostics: { relatedInformation: false, codeDescriptionSupport: true, versionSupport: true },
    hover: { contentFormat: ['markdown'] },
    codeAction: {
      codeActionLiteralSupport: { codeActionKind: { valueSet: ['quickfix'] } },
      isPreferredSupport: true,
    },
    completion: {
      completionItem: { labelDetailsSupport: true, documentationFormat: ['markdown'], tagSupport: { valueSet: [1] } },
      contextSupport: true,
    },
    signatureHelp: {
      signatureInformation: {
        parameterInformation: { labelOffsetSupport: true },
        activeParameterSupport: true,
        documentationFormat: ['markdown'],
      },
    },
    inlayHint: {},
    semanticTokens: { requests: { full: true }, tokenTypes: [], tokenModifiers: [], formats: ['relative'] },
  },
  workspace: {
    inlayHint: { refreshSupport: true },
    semanticTokens: { refreshSupport: true },
    workspaceFolders: true,
  },
} as const;
