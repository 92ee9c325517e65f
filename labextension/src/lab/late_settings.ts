/** The settings of the plugin, read after the page has started. */

/** What others read and change of them. */
export interface Settings {
  readonly composite: Readonly<Record<string, unknown>>;
  readonly changed: { connect(slot: () => void): boolean };
  set(name: string, value: unknown): Promise<void>;
}

export interface Registry {
  load(id: string): Promise<Settings>;
}

/**
 * Settings that are empty until the page has started.
 *
 * JupyterLab's keyboard shortcuts listen to the settings of other plugins before their own ones are there, and fail
 * when such settings arrive between: in Notebook 7 those of a plugin that reads them while it is activated.
 */
export class LateSettings implements Settings {
  /** Kept when the settings are there, or will not come. */
  readonly ready: Promise<void>;
  private loaded: Settings | null = null;
  private readonly slots: (() => void)[] = [];

  constructor(registry: Registry, id: string, started: Promise<void>) {
    const load = async (): Promise<void> => {
      await started;
      this.loaded = await registry.load(id);
      this.loaded.changed.connect(() => this.tell());
      this.tell();
    };
    this.ready = load().catch(() => undefined);
  }

  get composite(): Readonly<Record<string, unknown>> {
    return this.loaded?.composite ?? {};
  }

  /** Calls a slot after each change, and when the settings arrive. */
  readonly changed = {
    connect: (slot: () => void): boolean => {
      this.slots.push(slot);
      return true;
    },
  };

  async set(name: string, value: unknown): Promise<void> {
    await this.ready;
    await this.loaded?.set(name, value);
  }

  private tell(): void {
    for (const slot of this.slots) slot();
  }
}
