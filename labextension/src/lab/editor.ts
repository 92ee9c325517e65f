/** What the language server knows of a cell, drawn in its editor: squiggles, colours, hints, hovers, signatures, fixes. */

import type { Extension } from '@codemirror/state';

import { findingsOf } from './findings';
import { fixMenu } from './fixes';
import type { FixMenu } from './fixes';
import { hints } from './hints';
import { hover } from './hover';
import type { SharedCell } from './jupyter';
import type { Render } from './markdown';
import type { Session } from './session';
import { signature } from './signature';
import { colours } from './tokens';

/** The page's CodeMirror: classes of another copy would be strangers to its editors. */
export interface CodeMirror {
  readonly state: typeof import('@codemirror/state');
  readonly view: typeof import('@codemirror/view');
}

/** What the extensions of an editor share. */
export interface Tools {
  readonly cm: CodeMirror;
  readonly session: Session;
  readonly render: Render;
  /** Whether names are coloured. */
  readonly hasColours: () => boolean;
}

export interface Drawing {
  /** The extension of the editor of a cell. */
  of(cell: SharedCell): Extension;
  readonly fixes: FixMenu;
}

export function drawing(tools: Tools): Drawing {
  const [squiggles, shapes, call, fixes] = [findingsOf(tools), hints(tools), signature(tools), fixMenu(tools)];
  const names = colours(tools);
  return {
    fixes,
    of: cell => [
      squiggles.of(cell),
      shapes.of(cell),
      names.of(cell),
      hover(tools, cell, squiggles.at, fixes),
      call.of(cell),
      fixes.field,
    ],
  };
}
