// The texts of the office, by message files of its own: those of the page do not grow with them.

import { effect, signal } from '@preact/signals';
import { filled, language, type Values } from '../language';
import english from './messages/en.json';

type Messages = typeof english;
export type Word = keyof Messages;

/** The languages besides English. The compiler holds their messages against the English ones. */
const LOADS: Record<string, () => Promise<Messages>> = {
  ar: async () => (await import('./messages/ar.json')).default,
};

const words = signal<Messages>(english);

/** Learns the texts of a language. */
export async function learn(tag: string) {
  const messages = await (LOADS[tag]?.() ?? english);
  // Another language may have been chosen meanwhile.
  if (language.peek().tag === tag) words.value = messages;
}

effect(() => void learn(language.value.tag));

/** A text, with values in the places of their names; a plural by its `count`. */
export function tell(word: Word, values: Values = {}): string {
  return filled(words.value[word], values);
}

/** The text of a value of an enum; the value itself, if a newer server has one without a text. */
export function named(kind: string, value: string): string {
  const word = `${kind}.${value}`;
  return Object.hasOwn(words.value, word) ? tell(word as Word) : value;
}
