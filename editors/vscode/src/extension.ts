/** The extension: looks for NKI in what is open, starts the server for it, and offers its commands. */

import * as vscode from 'vscode';
import type { Middleware } from 'vscode-languageclient/node';

import { anyUsesNki, usesNki } from './detection';
import { ServerHandle } from './server';
import { Status } from './status';
import { openPage, profile } from './visualizer';

const MOST_FILES = 500;
const NO_SOURCES = '**/{node_modules,.venv,venv,site-packages,__pycache__}/**';

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel('NKI Lab', { log: true });
  const status = new Status(uri => server.target(uri));
  const server: ServerHandle = new ServerHandle(log, context.extensionPath, middleware(status));
  context.subscriptions.push(log, server, status, ...commands(server, log));

  const look = (document: vscode.TextDocument) => {
    if (document.languageId === 'python') void server.startFor(() => usesNki(document.getText()));
  };
  for (const document of vscode.workspace.textDocuments) look(document);
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument(look),
    vscode.workspace.onDidChangeTextDocument(event => look(event.document)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void server.restart()),
    vscode.workspace.onDidChangeConfiguration(event => {
      const names = ['nki-lab.server.interpreter', 'python.defaultInterpreterPath'];
      if (names.some(name => event.affectsConfiguration(name))) void server.restart();
    }),
  );
  void lookThroughWorkspace(server);
}

async function lookThroughWorkspace(server: ServerHandle): Promise<void> {
  const files = await vscode.workspace.findFiles('**/*.py', NO_SOURCES, MOST_FILES);
  const found = await anyUsesNki(files.map(file => file.fsPath));
  await server.startFor(() => found);
}

/**
 * Tells the status which documents the server has answered for, and puts the cell that a code lens asks for into the
 * notebook at hand; the server shows it beside a file by itself.
 */
function middleware(status: Status): Middleware {
  return {
    provideDiagnostics: async (document, previous, token, next) => {
      const report = await next(document, previous, token);
      if (report !== undefined && report !== null)
        status.examine(document instanceof vscode.Uri ? document : document.uri);
      return report;
    },
    executeCommand: async (command, args, next): Promise<unknown> => {
      const notebook = vscode.window.activeNotebookEditor;
      const [uri, kernel] = args as unknown[];
      const cell = notebook?.notebook.getCells().find(item => item.document.uri.toString() === uri);
      if (command !== 'nki-lab.cell' || notebook === undefined || cell === undefined) {
        return (await next(command, args)) as unknown;
      }
      const found = (await next(command, [uri, kernel, { show: false }])) as { cell: string } | null;
      if (found === null) return null;
      const data = new vscode.NotebookCellData(vscode.NotebookCellKind.Code, found.cell, 'python');
      const edit = new vscode.WorkspaceEdit();
      edit.set(notebook.notebook.uri, [vscode.NotebookEdit.insertCells(cell.index + 1, [data])]);
      await vscode.workspace.applyEdit(edit);
      return found;
    },
  };
}

function commands(server: ServerHandle, log: vscode.OutputChannel): vscode.Disposable[] {
  const table: Record<string, (...args: unknown[]) => unknown> = {
    'nki-lab.checkFile': async () => {
      await server.start();
      await vscode.commands.executeCommand('workbench.actions.view.problems');
    },
    'nki-lab.checkWorkspace': async () => {
      await server.start();
      await vscode.commands.executeCommand('workbench.actions.view.problems');
    },
    'nki-lab.profileKernel': () => profile(server, log),
    'nki-lab.openVisualizer': () => openPage(),
    'nki-lab.chooseTarget': () => chooseTarget(),
    'nki-lab.chooseInterpreter': () => chooseInterpreter(),
    'nki-lab.migrateFile': async () => {
      await server.start();
      await vscode.commands.executeCommand('editor.action.codeAction', { kind: 'source.migrate.nki', apply: 'first' });
    },
    'nki-lab.explainCode': async () => {
      const name = await vscode.window.showInputBox({ prompt: 'A code or a name, such as NKI201 or nc_matmul' });
      if (name === undefined || name === '') return;
      await server.start();
      await server.execute('nki-lab.explain', [name.trim()]);
    },
    'nki-lab.restartServer': () => server.startAgain(),
    'nki-lab.showLog': () => log.show(),
  };
  return Object.entries(table).map(([name, run]) => vscode.commands.registerCommand(name, run));
}

/** Ask for one of the targets that the settings know, and keep it in the workspace's settings, where there is one. */
async function chooseTarget(): Promise<void> {
  const manifest = vscode.extensions.getExtension('nki-lab.nki-lab')?.packageJSON as Manifest | undefined;
  const targets = manifest?.contributes.configuration.properties['nki-lab.target']?.enum ?? [];
  const items = targets.map(value => ({ label: value === '' ? 'the target of the project' : value, value }));
  const chosen = await vscode.window.showQuickPick(items, { placeHolder: 'The target that kernels are checked for' });
  if (chosen === undefined) return;
  const isWorkspace = vscode.workspace.workspaceFolders !== undefined;
  const place = isWorkspace ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
  await vscode.workspace.getConfiguration('nki-lab').update('target', chosen.value || undefined, place);
}

interface Manifest {
  contributes: { configuration: { properties: Record<string, { enum?: string[] }> } };
}

/** Ask for an interpreter: by the Python extension where it is there, else by its file. */
async function chooseInterpreter(): Promise<void> {
  const known = await vscode.commands.getCommands(true);
  if (vscode.workspace.isTrusted && known.includes('python.setInterpreter')) {
    await vscode.commands.executeCommand('python.setInterpreter');
    return;
  }
  const files = await vscode.window.showOpenDialog({ title: 'The Python in which nki_lab is installed' });
  const [file] = files ?? [];
  if (file === undefined) return;
  const settings = vscode.workspace.getConfiguration('nki-lab');
  await settings.update('server.interpreter', file.fsPath, vscode.ConfigurationTarget.Global);
}
