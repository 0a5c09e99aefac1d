// The scores of a queue that are kept in its storage, with a picture of them in memory.

import { randomId } from '../pause.js';
import type { ScoreStorage } from '../storage.js';
import type { QueuedScore } from './score.js';

/** The most characters of one score. */
const SCORE_CHARACTERS_MAX = 8192;

/** The characters by which a score grows when it is sent. */
const SENT_CHARACTERS = 32;

/** The queue has no room; the score was not taken. */
export class QueueFullError extends Error {
  override readonly name = 'QueueFullError';
}

/** A score that waits. */
export interface Item {
  readonly key: string;
  readonly score: QueuedScore;
  /** The most characters that it takes in the storage. */
  readonly characters: number;
  /** The time of the first request that had it, in Unix milliseconds. */
  sentAt?: number | undefined;
}

/** The most that is kept. */
export interface Room {
  lengthMax: number;
  charactersMax: number;
}

/** Scores by key, in the order of keys, which is that in which they were added. */
export class KeptScores {
  readonly #storage: ScoreStorage;
  readonly #room: Room;
  readonly #onChange: () => void;
  readonly #onDamage: (error: Error) => void;
  #items: Item[] = [];
  #characters = 0;
  #order = 0;
  #isLoaded = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(storage: ScoreStorage, room: Room, onChange: () => void, onDamage: (error: Error) => void) {
    this.#storage = storage;
    this.#room = room;
    this.#onChange = onChange;
    this.#onDamage = onDamage;
  }

  get length(): number {
    return this.#items.length;
  }

  /** Reads the storage, which another tab may have changed. */
  load(): Promise<void> {
    return this.#inTurn(() => this.#load());
  }

  /** Keeps a score. @throws QueueFullError; TypeError if the score is too long. */
  add(score: QueuedScore): Promise<void> {
    const characters = charactersOf(score);
    if (characters > SCORE_CHARACTERS_MAX) {
      throw new TypeError(`a score of ${characters} characters: expected at most ${SCORE_CHARACTERS_MAX}`);
    }
    return this.#inTurn(async () => {
      if (!this.#isLoaded) await this.#load();
      const { lengthMax, charactersMax } = this.#room;
      if (this.length >= lengthMax) throw new QueueFullError(`the queue is full: ${lengthMax} scores wait`);
      if (this.#characters + characters > charactersMax) throw new QueueFullError(`the queue is full: ${charactersMax} characters wait`);
      this.#order = Math.max(this.#order + 1, Date.now());
      const item = { key: `${String(this.#order).padStart(16, '0')}-${randomId()}`, score, characters };
      await this.#storage.put([[item.key, textOf(item)]]);
      this.#items.push(item);
      this.#characters += characters;
      this.#onChange();
    });
  }

  /** The first scores, all of one board. */
  batch(lengthMax: number, charactersMax: number): Item[] {
    const board = this.#items[0]?.score.board;
    let characters = 0;
    const end = this.#items.findIndex((item, index) => {
      characters += item.characters;
      return item.score.board !== board || index === lengthMax || (index > 0 && characters > charactersMax);
    });
    return this.#items.slice(0, end < 0 ? undefined : end);
  }

  /** Notes that a request has them from now on, unless an earlier one had. */
  markSent(items: Item[], now: number): Promise<void> {
    return this.#inTurn(async () => {
      const keys = new Set(items.map(item => item.key));
      const unsent = this.#items.filter(item => keys.has(item.key) && item.sentAt === undefined);
      if (unsent.length) await this.#storage.put(unsent.map(item => [item.key, textOf({ ...item, sentAt: now })]));
      for (const item of unsent) item.sentAt = now;
    });
  }

  /** Forgets them. */
  remove(items: Item[]): Promise<void> {
    return this.#inTurn(async () => {
      const keys = new Set(items.map(item => item.key));
      await this.#storage.delete([...keys]);
      this.#take(this.#items.filter(item => !keys.has(item.key)));
    });
  }

  /** Runs one thing after another, so that what was read is not older than what was written meanwhile. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }

  async #load(): Promise<void> {
    const entries = await this.#storage.load();
    entries.sort(([one], [other]) => (one < other ? -1 : 1));
    this.#isLoaded = true;
    this.#take(entries.flatMap(([key, text]) => this.#read(key, text)));
    const last = this.#items.at(-1);
    if (last) this.#order = Math.max(this.#order, Number.parseInt(last.key, 10));
  }

  #take(items: Item[]): void {
    this.#items = items;
    this.#characters = items.reduce((sum, { characters }) => sum + characters, 0);
    this.#onChange();
  }

  /** The score of a text. One that cannot be read stays where it is, and is told. */
  #read(key: string, text: string): Item[] {
    try {
      const { score, sentAt } = JSON.parse(text) as Partial<Item>;
      if (typeof score?.board === 'string' && typeof score.eventId === 'string') {
        return [{ key, score, sentAt, characters: charactersOf(score) }];
      }
    } catch {
      // Told below, with the texts that are JSON and no score.
    }
    this.#onDamage(new Error(`the storage has no score at ${key}`));
    return [];
  }
}

function charactersOf(score: QueuedScore): number {
  return textOf({ score }).length + SENT_CHARACTERS;
}

function textOf({ score, sentAt }: Pick<Item, 'score' | 'sentAt'>): string {
  return JSON.stringify({ score, sentAt });
}
