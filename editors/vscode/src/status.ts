/** Shows the target and the number of findings of the file or cell at hand, once the server has examined it. */

import * as vscode from 'vscode';

import { usesNki } from './detection';

const SOURCE = 'nki-lab';

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right, 90);
  private readonly changes: vscode.Disposable;
  private readonly examined = new Set<string>();
  private readonly targets = new Map<string, string>();

  /** `target` asks the server what a document is checked for: a cell may name its own. */
  constructor(private readonly target: (uri: vscode.Uri) => Promise<string>) {
    this.item.name = 'NKI';
    this.item.command = 'nki-lab.chooseTarget';
    this.item.tooltip = 'Target and findings of NKI kernels; a click chooses the target';
    const update = () => this.update();
    this.changes = vscode.Disposable.from(
      vscode.window.onDidChangeActiveTextEditor(update),
      vscode.languages.onDidChangeDiagnostics(update),
      vscode.workspace.onDidChangeConfiguration(update),
    );
    this.update();
  }

  /** Note that the server has answered for a document. */
  examine(uri: vscode.Uri): void {
    this.examined.add(uri.toString());
    this.update();
    void this.target(uri).then(target => {
      this.targets.set(uri.toString(), target);
      this.update();
    });
  }

  dispose(): void {
    this.item.dispose();
    this.changes.dispose();
  }

  private update(): void {
    const document = vscode.window.activeTextEditor?.document;
    if (document?.languageId !== 'python' || !usesNki(document.getText())) {
      this.item.hide();
      return;
    }
    const target = this.targets.get(document.uri.toString()) ?? '';
    const isExamined = this.examined.has(document.uri.toString());
    const count = vscode.languages.getDiagnostics(document.uri).filter(found => found.source === SOURCE).length;
    const findings = isExamined ? [`${count} finding${count === 1 ? '' : 's'}`] : [];
    this.item.text = [`NKI${target === '' ? '' : ` ${target}`}`, ...findings].join(': ');
    this.item.show();
  }
}
