// The languages of the page: its texts by message files, its numbers and times by the browser.

import { signal } from '@preact/signals';
import english from './messages/en.json';

type Messages = typeof english;
export type Plural = { other: string };
export type Key = keyof Messages;
export type Values = Record<string, string | number>;

interface Language {
  name: string;
  direction: 'ltr' | 'rtl';
  load: () => Promise<Messages>;
}

/** The languages, by their tags. The compiler holds their messages against the English ones. */
export const LANGUAGES: Record<string, Language> = {
  en: { name: 'English', direction: 'ltr', load: async () => english },
  ar: { name: 'العربية', direction: 'rtl', load: async () => (await import('./messages/ar.json')).default },
};

const KEPT = 'laurel:language';

/** The language that is shown. */
export const language = signal({ tag: 'en', messages: english });

/** Shows the page in a language. */
export async function speak(tag: string, keep = false) {
  const chosen = LANGUAGES[tag] ?? LANGUAGES['en']!;
  const messages = await chosen.load();
  document.documentElement.lang = tag;
  document.documentElement.dir = chosen.direction;
  language.value = { tag, messages };
  if (keep) quietly(() => localStorage.setItem(KEPT, tag));
}

function quietly<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}

/** The language that the address, the reader's choice or the browser names, and the page has. */
export function preferred(): string {
  const named = [
    new URLSearchParams(location.search).get('lang'),
    quietly(() => localStorage.getItem(KEPT)),
    ...navigator.languages,
  ];
  const tags = named.map(tag => tag?.split('-')[0]?.toLowerCase() ?? '');
  return tags.find(tag => Object.hasOwn(LANGUAGES, tag)) ?? 'en';
}

/** The tag for numbers and times: digits are those of the scores, which the server writes. */
export function locale(): string {
  return `${language.value.tag}-u-nu-latn`;
}

/** A message, with values in the places of their names; a plural by its `count`. */
export function say(key: Key, values: Values = {}): string {
  return filled(language.value.messages[key], values);
}

/** A text of a message file, with values in the places of their names. */
export function filled(message: string | Plural, values: Values = {}): string {
  let text: string;
  if (typeof message === 'string') text = message;
  else {
    const rule = new Intl.PluralRules(language.value.tag).select(Number(values['count']));
    text = (message as Record<string, string>)[rule] ?? message.other;
  }
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name] ?? '';
    return typeof value === 'number' ? number(value) : isolated(value);
  });
}

/** A value that keeps its own direction, where two directions meet. */
function isolated(value: string): string {
  const meets = document.documentElement.dir === 'rtl' || /[\u0590-\u08ff\ufb1d-\ufefc]/.test(value);
  return meets ? `\u2068${value}\u2069` : value;
}

/** A number, written as the language does. */
export function number(value: number, options: Intl.NumberFormatOptions = {}): string {
  return new Intl.NumberFormat(locale(), options).format(value);
}

/** An instant, in a time zone; in the reader's own without one. */
export function time(instant: string | number, options: Intl.DateTimeFormatOptions, timeZone?: string): string {
  return new Intl.DateTimeFormat(locale(), { ...options, ...(timeZone && { timeZone }) }).format(new Date(instant));
}
