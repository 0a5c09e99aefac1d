// Acts: what the office does to the server, the question before a dangerous one, and the word after it.

import { signal } from '@preact/signals';
import { ask, type Operation, Problem } from '../ask';
import { say } from '../language';
import { tell } from './words';

/** An act does something, and returns the word about it. */
export type Act = () => Promise<string>;

/** Does one thing, and returns its result; throws the problem if it was not done. */
export async function act<D, V, T>(document: Operation<D, V>, variables: V, part: (data: D) => T | null | undefined): Promise<T> {
  // An act is not cut off when its reader goes elsewhere.
  const { data, problems } = await ask(document, variables, new AbortController().signal);
  const result = part(data);
  if (result === null || result === undefined) throw problems[0] ?? new Problem('failed');
  return result;
}

/** A problem of an act, for people. The server's own words say what it would accept. */
export function troubleText(error: unknown): string {
  if (!(error instanceof Problem)) return String(error);
  if (error.cause === 'offline') return tell('act.unknown');
  return error.message || say(`trouble.${error.cause}`);
}

/** The word about the last act. */
export const told = signal('');

export interface Question {
  title: string;
  text: string;
  /** The text to type before the act is done. */
  typed?: string;
  /** The name of the act, on its button. */
  verb: string;
  run: Act;
}

/** The question that is open. */
export const question = signal<Question | undefined>(undefined);

/** Asks before a dangerous act. */
export function askFirst(asked: Question) {
  question.value = asked;
}
