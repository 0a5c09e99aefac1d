// A field whose text is looked for when its reader pauses.

import type { InputHTMLAttributes } from 'preact';
import { useEffect, useState } from 'preact/hooks';

/** The pause after a letter before its text is looked for, in milliseconds. */
const TYPING_MS = 250;

type Props = Pick<InputHTMLAttributes, 'maxLength' | 'autocomplete' | 'spellcheck'> & {
  label: string;
  /** The text that is looked for now. */
  sought: string;
  /** Looks for another one. */
  find: (text: string) => void;
};

export function SearchField({ label, sought, find, ...of }: Props) {
  const [typed, setTyped] = useState(sought);
  useEffect(() => {
    const text = typed.trim();
    if (text === sought) return;
    const timer = setTimeout(() => find(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label class="field search">
      {label}
      <input type="search" value={typed} onInput={event => setTyped(event.currentTarget.value)} dir="auto" {...of} />
    </label>
  );
}
