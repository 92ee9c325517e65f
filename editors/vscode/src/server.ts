/** Starts, restarts and ends the language server. */

import { execFile } from 'node:child_process';

import * as vscode from 'vscode';
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  RevealOutputChannelOn,
  State,
  type LanguageClientOptions,
  type Middleware,
  type ServerOptions,
} from 'vscode-languageclient/node';

import { installation, interpreter, type Sources } from './interpreter';

const SECTION = 'nki-lab';
const CHECK_MILLISECONDS = 60_000;
/** What a Python needs to run the server, and nothing more. */
const REQUIRE = 'from nki_lab.lsp.start import require; require()';
/** A server that ends so often within so long stays away until a user starts it again. */
const MOST_ENDS = 4;
const WITHIN_MILLISECONDS = 180_000;

/** The part of the Python extension's interface that says which environment is active. */
interface PythonExtension {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    onDidChangeActiveEnvironmentPath(listener: () => void): vscode.Disposable;
  };
}

/** A client whose complaints go to the log: what a user can do about them is told by `ServerHandle`. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** Wait until something has ended in whatever way, not longer than `CHECK_MILLISECONDS`. */
function settled(what: Promise<unknown>): Promise<void> {
  return new Promise(answer => {
    const patience = setTimeout(answer, CHECK_MILLISECONDS);
    const end = (): void => {
      clearTimeout(patience);
      answer();
    };
    what.then(end, end);
  });
}

export class ServerHandle implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private work: Promise<void> = Promise.resolve();
  private isWanted = false;
  /** Whether the last start failed: what users type does not try it again, what they ask for does. */
  private hasFailed = false;
  private isWatchingPython = false;
  private readonly changes: vscode.Disposable[] = [];

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly home: string,
    private readonly middleware: Middleware,
  ) {}

  get isRunning(): boolean {
    return this.client?.isRunning() ?? false;
  }

  /** Start the server, unless it runs; later calls wait for earlier ones. */
  start(): Promise<void> {
    this.isWanted = true;
    return this.after(() => this.openUnlessStarting());
  }

  /** The same for a text that uses NKI, unless that has failed before. */
  async startFor(usesNki: () => boolean): Promise<void> {
    if (this.isRunning || this.hasFailed || !usesNki()) return;
    this.isWanted = true;
    await this.after(async () => {
      if (!this.hasFailed) await this.openUnlessStarting();
    });
  }

  /** End the server and start it with the settings of now; a server that nobody wanted so far stays off. */
  restart(): Promise<void> {
    return this.after(async () => {
      await this.close();
      if (this.isWanted) await this.open();
    });
  }

  /** The same, also where nobody wanted it so far. */
  startAgain(): Promise<void> {
    this.isWanted = true;
    return this.restart();
  }

  stop(): Promise<void> {
    this.isWanted = false;
    return this.after(() => this.close());
  }

  /** Return the interpreter of the settings; undefined where there is none. */
  async python(): Promise<string | undefined> {
    const folders = (vscode.workspace.workspaceFolders ?? []).map(folder => folder.uri.fsPath);
    return interpreter(await this.sources(), folders, vscode.workspace.isTrusted);
  }

  /** Ask the running server for a command's result. */
  execute(command: string, args: unknown[]): Promise<unknown> {
    if (this.client === undefined) return Promise.reject(new Error('the language server does not run'));
    return this.client.sendRequest('workspace/executeCommand', { command, arguments: args });
  }

  /** Ask the running server what a document is checked for; empty where it does not know. */
  async target(uri: vscode.Uri): Promise<string> {
    const found = await this.execute('nki-lab.target', [uri.toString()]).catch(() => null);
    return typeof found === 'string' ? found : '';
  }

  dispose(): void {
    for (const item of this.changes) item.dispose();
    void this.stop();
  }

  private after(step: () => Promise<void>): Promise<void> {
    this.work = this.work.then(step).catch((error: unknown) => {
      this.log.appendLine(String(error));
      void vscode.window
        .showErrorMessage(`NKI: the language server did not start: ${String(error)}`, 'Show log')
        .then(button => button !== undefined && this.log.show(true));
    });
    return this.work;
  }

  /** A server that has died is started again by its client: a second one could not have its commands. */
  private async openUnlessStarting(): Promise<void> {
    if (this.client?.state === State.Starting) await this.client.start();
    else if (!this.isRunning) await this.open();
  }

  private async open(): Promise<void> {
    await this.close();
    this.hasFailed = true;
    const python = await this.python();
    if (python === undefined) {
      this.askForInterpreter('NKI: there is no Python 3 on PATH outside the workspace.');
      return;
    }
    this.log.appendLine(`starting ${python} -P -m nki_lab.lsp`);
    // In the extension's folder: the workspace may be hostile.
    const run = { command: python, args: ['-P', '-m', 'nki_lab.lsp'], options: { cwd: this.home } };
    const client = this.made(run);
    this.client = client;
    try {
      await client.start();
      this.hasFailed = false;
    } catch (error) {
      this.client = undefined;
      const missing = await this.whyNot(python);
      if (missing === undefined) throw error;
      this.log.appendLine(missing);
      this.askForInterpreter(`NKI: nki_lab is not installed in ${python}: ${installation(python)}`);
    }
  }

  /** Return a client; a server that ends is started again, but not one that has never answered. */
  private made(run: ServerOptions): LanguageClient {
    let ends: number[] = [];
    const options: LanguageClientOptions = {
      documentSelector: [{ language: 'python' }],
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      synchronize: { configurationSection: SECTION },
      middleware: this.middleware,
      initializationFailedHandler: () => false, // told by whoever starts it
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue }),
        closed: () => {
          ends = [...ends.filter(time => Date.now() - time < WITHIN_MILLISECONDS), Date.now()];
          const isOver = !client.isRunning() || ends.length >= MOST_ENDS;
          if (client.isRunning() && isOver) this.offerToStartAgain();
          return { action: isOver ? CloseAction.DoNotRestart : CloseAction.Restart, handled: true };
        },
      },
    };
    const client = new QuietClient(SECTION, 'NKI Lab', run, options);
    return client;
  }

  private async close(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client?.state === State.Starting) await settled(client.start()); // until then it cannot be stopped
    await client?.dispose().catch((error: unknown) => this.log.appendLine(String(error)));
  }

  private offerToStartAgain(): void {
    this.hasFailed = true;
    const text = `NKI: the language server ended ${MOST_ENDS} times within three minutes.`;
    void vscode.window.showErrorMessage(text, 'Start again', 'Show log').then(button => {
      if (button === 'Start again') void this.startAgain();
      else if (button !== undefined) this.log.show(true);
    });
  }

  /** Return why the server cannot be started with an interpreter; undefined where it could be. */
  private whyNot(python: string): Promise<string | undefined> {
    return new Promise(answer => {
      const options = { cwd: this.home, timeout: CHECK_MILLISECONDS };
      execFile(python, ['-P', '-c', REQUIRE], options, (error, _out, complaint) =>
        answer(error === null ? undefined : complaint || error.message),
      );
    });
  }

  /** Nothing waits for the answer: the next start may come before it. */
  private askForInterpreter(text: string): void {
    void vscode.window.showWarningMessage(text, 'Choose interpreter', 'Show log').then(chosen => {
      if (chosen === 'Choose interpreter') void vscode.commands.executeCommand('nki-lab.chooseInterpreter');
      else if (chosen !== undefined) this.log.show(true);
    });
  }

  private async sources(): Promise<Sources> {
    const own = vscode.workspace.getConfiguration(SECTION).inspect<string>('server.interpreter');
    const python = vscode.workspace.getConfiguration('python');
    return {
      setting: vscode.workspace.getConfiguration(SECTION).get<string>('server.interpreter', ''),
      ownSetting: own?.globalValue ?? '',
      active: await this.active(),
      fallback: python.get<string>('defaultInterpreterPath', ''),
      ownFallback: python.inspect<string>('defaultInterpreterPath')?.globalValue ?? '',
      path: process.env.PATH ?? '',
    };
  }

  private async active(): Promise<string> {
    const extension = vscode.extensions.getExtension<PythonExtension>('ms-python.python');
    if (extension === undefined || !vscode.workspace.isTrusted) return '';
    const { environments } = await extension.activate();
    if (!this.isWatchingPython) {
      this.isWatchingPython = true;
      this.changes.push(environments.onDidChangeActiveEnvironmentPath(() => void this.restart()));
    }
    return environments.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri).path;
  }
}
