// A directory of Node.js as the place of a queue: a file for each score, which is whole or not there.

import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { randomId } from './pause.js';
import type { ScoreStorage } from './storage.js';

const ENDING = '.json';

/** A directory that one process uses at a time. */
export class FileStorage implements ScoreStorage {
  readonly #directory: string;

  /** The directory is made when it is first used. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  async load(): Promise<[string, string][]> {
    await mkdir(this.#directory, { recursive: true });
    const entries: [string, string][] = [];
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      if (name.endsWith(ENDING)) entries.push([name.slice(0, -ENDING.length), await readFile(path, 'utf8')]);
      // A process has died while it wrote this file, before it promised anything.
      else await rm(path, { force: true });
    }
    return entries;
  }

  async put(entries: [string, string][]): Promise<void> {
    for (const [key, text] of entries) {
      const path = join(this.#directory, key + ENDING);
      const written = `${path}.${randomId()}`;
      const file = await open(written, 'wx');
      try {
        await file.writeFile(text);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(written, path);
    }
    await this.#sync();
  }

  async delete(keys: string[]): Promise<void> {
    for (const key of keys) await rm(join(this.#directory, key + ENDING), { force: true });
  }

  /** Makes the names last, where the system lets a directory be opened. */
  async #sync(): Promise<void> {
    if (process.platform === 'win32') return;
    const directory = await open(this.#directory, 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}
