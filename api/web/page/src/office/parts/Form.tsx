// Forms: fields with their names, and an act that is done with what they hold.

import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { told, troubleText } from '../acts';

/** What the fields of a form hold. */
export class Filled {
  readonly data: FormData;

  constructor(form: HTMLFormElement) {
    this.data = new FormData(form);
  }

  text(name: string): string {
    return String(this.data.get(name) ?? '').trim();
  }

  /** The text of a field, or null of an empty one. */
  some(name: string): string | null {
    return this.text(name) || null;
  }

  number(name: string): number | null {
    return this.text(name) ? Number(this.text(name)) : null;
  }

  is(name: string): boolean {
    return this.data.has(name);
  }

  all<T extends string>(name: string): T[] {
    return this.data.getAll(name) as T[];
  }

  /** The words of a field, between commas or spaces. */
  words(name: string): string[] {
    return this.text(name).split(/[\s,،]+/).filter(Boolean);
  }

  /** An instant in UTC, or null of an empty field. */
  instant(name: string): string | null {
    return this.text(name) ? new Date(`${this.text(name)}Z`).toISOString() : null;
  }
}

/** A form. The act returns a word about itself, or nothing if a question is open now. */
export function Form({ verb, act, strong = true, clears = false, children }: {
  verb: string;
  act: (filled: Filled) => Promise<string> | void;
  strong?: boolean;
  clears?: boolean;
  children: ComponentChildren;
}) {
  const form = useRef<HTMLFormElement>(null);
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState('');
  const submit = async () => {
    if (busy || !form.current) return;
    setBusy(true);
    setTrouble('');
    try {
      const word = await act(new Filled(form.current));
      if (word) told.value = word;
      if (word && clears) form.current?.reset();
    } catch (error) {
      setTrouble(troubleText(error));
    }
    setBusy(false);
  };
  return (
    <form ref={form} onSubmit={event => (event.preventDefault(), void submit())}>
      {children}
      {trouble && <p class="refusal" role="alert" dir="auto">{trouble}</p>}
      <div class="buttons">
        <button class={strong ? 'strong' : ''} type="submit" aria-busy={busy}>{verb}</button>
      </div>
    </form>
  );
}

interface Named {
  name: string;
  label: string;
}

export function Text({ name, label, hint, value = '', long, ...rest }: Named & {
  value?: string;
  hint?: string;
  long?: boolean;
  required?: boolean;
  maxLength?: number;
  pattern?: string;
  type?: 'text' | 'number' | 'datetime-local';
  min?: number;
  max?: number;
  list?: string;
}) {
  const hintId = `${name.replaceAll(' ', '-')}-hint`;
  const shared = { name, defaultValue: value, autocomplete: 'off' as const, spellcheck: false, ...(hint && { 'aria-describedby': hintId }) };
  return (
    <div class="hinted">
      <label class="field">
        {label}
        {long ? <textarea class="prose" rows={3} dir="auto" {...shared} {...(rest.maxLength && { maxLength: rest.maxLength })} /> : <input dir="auto" {...shared} {...rest} />}
      </label>
      {hint && <span class="note" id={hintId}>{hint}</span>}
    </div>
  );
}

export function Choice({ name, label, options, value }: Named & { options: readonly (readonly [string, string])[]; value?: string }) {
  return (
    <label class="field">
      {label}
      <select name={name}>
        {options.map(([option, text]) => <option key={option} value={option} selected={option === value}>{text}</option>)}
      </select>
    </label>
  );
}

export function Check({ name, label, value = 'on', checked = false }: Named & { value?: string; checked?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" name={name} value={value} defaultChecked={checked} />
      <span>{label}</span>
    </label>
  );
}
