// Places where a queue keeps its scores. Each score has a key of its own, so that two tabs never overwrite each other's.

/** A place for texts by key. What it has taken must survive a restart of the program. */
export interface ScoreStorage {
  /** A name by which the tabs of an origin that share this place take turns. */
  readonly name?: string;
  /** All keys with their texts, in any order. */
  load(): Promise<[key: string, text: string][]>;
  /** Keeps texts; after the promise is fulfilled they last. */
  put(entries: [key: string, text: string][]): Promise<void>;
  /** Forgets keys; an unknown one is no error. */
  delete(keys: string[]): Promise<void>;
}

/** A place that lasts as long as the program: for tests, and for games that may lose scores. */
export class MemoryStorage implements ScoreStorage {
  readonly #texts = new Map<string, string>();

  async load(): Promise<[string, string][]> {
    return [...this.#texts];
  }

  async put(entries: [string, string][]): Promise<void> {
    for (const [key, text] of entries) this.#texts.set(key, text);
  }

  async delete(keys: string[]): Promise<void> {
    for (const key of keys) this.#texts.delete(key);
  }
}

/** The functions of `localStorage` that are used. */
export interface WebStorage {
  readonly length: number;
  key(index: number): string | null;
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** A browser's `localStorage`, or another store of its shape. */
export class LocalStorage implements ScoreStorage {
  readonly name: string;
  readonly #prefix: string;
  readonly #storage: WebStorage;

  /** The name tells the queues of one origin apart: have one for each player. */
  constructor(name: string, storage: WebStorage = globalThis.localStorage) {
    this.name = name;
    this.#prefix = `laurel:${name}:`;
    this.#storage = storage;
  }

  async load(): Promise<[string, string][]> {
    const entries: [string, string][] = [];
    for (let index = 0; index < this.#storage.length; index++) {
      const key = this.#storage.key(index);
      const text = key?.startsWith(this.#prefix) ? this.#storage.getItem(key) : null;
      if (text !== null) entries.push([key!.slice(this.#prefix.length), text]);
    }
    return entries;
  }

  async put(entries: [string, string][]): Promise<void> {
    for (const [key, text] of entries) this.#storage.setItem(this.#prefix + key, text);
  }

  async delete(keys: string[]): Promise<void> {
    for (const key of keys) this.#storage.removeItem(this.#prefix + key);
  }
}
