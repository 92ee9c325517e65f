/** Runs a kernel on the simulator when the user asks for it, and shows the page of a run beside the code. */

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

import * as vscode from 'vscode';

import { framed, lineOf, mayOpen } from './page';
import type { ServerHandle } from './server';

/** Profile the kernel around the cursor: run the script that the server writes for it, and show its page. */
export async function profile(server: ServerHandle, log: vscode.OutputChannel): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    void vscode.window.showWarningMessage('NKI: a kernel of a workspace that is not trusted is not run.');
    return;
  }
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.languageId !== 'python' || editor.document.uri.scheme !== 'file') {
    void vscode.window.showWarningMessage('NKI: a kernel in a Python file is profiled; open one first.');
    return;
  }
  await editor.document.save();
  await server.start();
  const python = await server.python();
  const kernel = await kernelOf(editor);
  if (python === undefined || kernel === undefined) return;
  const folder = await mkdtemp(join(tmpdir(), 'nki-lab-profile-'));
  const page = join(folder, `${kernel}.html`);
  const options = { show: false, page };
  const found = await server.execute('nki-lab.cell', [editor.document.uri.toString(), kernel, options]);
  const text = (found as { cell?: string } | null)?.cell;
  if (text === undefined) {
    void vscode.window.showWarningMessage(`NKI: ${basename(editor.document.fileName)} has no kernel ${kernel}.`);
    return;
  }
  const script = join(folder, `run_${kernel}.py`);
  await writeFile(script, text);
  const progress = {
    location: vscode.ProgressLocation.Notification,
    title: `NKI: profiling ${kernel}`,
    cancellable: true,
  };
  try {
    await vscode.window.withProgress(progress, (_report, token) => run(python, script, token));
    await show(page);
  } catch (error) {
    log.appendLine(String((error as { stderr?: string }).stderr ?? error));
    const button = await vscode.window.showErrorMessage(`NKI: ${kernel} did not run to its end.`, 'Show log');
    if (button !== undefined) log.show(true);
  }
}

/** Show a page that was written before. */
export async function openPage(): Promise<void> {
  const files = await vscode.window.showOpenDialog({
    title: 'The page of a run',
    filters: { 'Pages of runs': ['html'] },
  });
  const [file] = files ?? [];
  if (file !== undefined) await show(file.fsPath);
}

async function run(python: string, script: string, token: vscode.CancellationToken): Promise<void> {
  const ending = new AbortController();
  token.onCancellationRequested(() => ending.abort());
  await promisify(execFile)(python, ['-P', script], { signal: ending.signal });
}

async function show(page: string): Promise<void> {
  const text = framed(await readFile(page, 'utf8'), randomBytes(16).toString('hex'));
  const look = { enableScripts: true, localResourceRoots: [], retainContextWhenHidden: true };
  const panel = vscode.window.createWebviewPanel(
    'nki-lab.run',
    basename(page, '.html'),
    vscode.ViewColumn.Beside,
    look,
  );
  panel.webview.onDidReceiveMessage((message: unknown) => reveal(message));
  panel.webview.html = text;
}

/** Show the line that a click in a page has led to, beside the page, which keeps the keyboard. */
async function reveal(message: unknown): Promise<void> {
  const found = lineOf(message);
  const folders = (vscode.workspace.workspaceFolders ?? []).map(folder => folder.uri.fsPath);
  const open = vscode.workspace.textDocuments.map(document => document.uri.fsPath);
  if (found === undefined || !mayOpen(found.path, folders, open)) return;
  const uri = vscode.Uri.file(found.path);
  const shown = vscode.window.tabGroups.all.find(group =>
    group.tabs.some(tab => tab.input instanceof vscode.TabInputText && tab.input.uri.fsPath === uri.fsPath),
  );
  const place = new vscode.Position(found.line - 1, 0);
  await vscode.window.showTextDocument(uri, {
    viewColumn: shown?.viewColumn ?? vscode.ViewColumn.One,
    preserveFocus: true,
    selection: new vscode.Range(place, place),
  });
}

/** Return the kernel around the cursor by the lenses over kernels, else the one that the user picks of them. */
async function kernelOf(editor: vscode.TextEditor): Promise<string | undefined> {
  const { uri } = editor.document;
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>('vscode.executeCodeLensProvider', uri, 0);
  const places = (lenses ?? []).flatMap(lens => {
    const name: unknown = lens.command?.command === 'nki-lab.cell' ? lens.command.arguments?.[1] : undefined;
    return typeof name === 'string' ? [{ name, line: lens.range.start.line }] : [];
  });
  // A decorator stands above the name.
  const line = editor.selection.active.line + 1;
  const above = places.filter(place => place.line <= line).sort((a, b) => b.line - a.line);
  return (
    above[0]?.name ??
    vscode.window.showQuickPick(
      places.map(place => place.name),
      { title: 'Kernel to profile' },
    )
  );
}
