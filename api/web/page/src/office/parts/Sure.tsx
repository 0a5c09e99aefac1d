// The question before a dangerous act; for the worst ones a name is typed first.

import { useEffect, useRef, useState } from 'preact/hooks';
import { say } from '../../language';
import { question, told, troubleText } from '../acts';
import { tell } from '../words';

export function Sure() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState('');
  const asked = question.value;
  /** The question in the dialog. The browser tells of a close a moment later, when another one may be open. */
  const shown = useRef(asked);
  useEffect(() => {
    shown.current = asked;
    if (!asked) return dialog.current?.close();
    setTyped('');
    setTrouble('');
    dialog.current?.showModal();
  }, [asked]);
  const close = () => (question.value = undefined);
  const closed = () => {
    if (!dialog.current?.open && question.peek() === shown.current) close();
  };
  const run = async () => {
    if (!asked || busy || (asked.typed && typed !== asked.typed)) return;
    setBusy(true);
    setTrouble('');
    try {
      told.value = await asked.run();
      if (question.peek() === asked) close();
    } catch (error) {
      setTrouble(troubleText(error));
    }
    setBusy(false);
  };
  return (
    <dialog ref={dialog} onClose={closed} aria-labelledby="sure-title" aria-describedby="sure-text">
      <form onSubmit={event => (event.preventDefault(), void run())}>
        <h2 id="sure-title">{asked?.title}</h2>
        <p id="sure-text">{asked?.text}</p>
        {asked?.typed && (
          <label class="field">
            {tell('sure.type', { typed: asked.typed })}
            <input value={typed} onInput={event => setTyped(event.currentTarget.value)} autocomplete="off" autocapitalize="off" spellcheck={false} dir="auto" />
          </label>
        )}
        {trouble && <p class="refusal" role="alert" dir="auto">{trouble}</p>}
        <div class="buttons">
          <button class="danger" type="submit" aria-busy={busy} disabled={Boolean(asked?.typed && typed !== asked.typed)}>{asked?.verb}</button>
          <button type="button" autofocus={!asked?.typed} onClick={close}>{say('cancel')}</button>
        </div>
      </form>
    </dialog>
  );
}

/** The word about the last act, for the eye and for the ear. */
export function Told() {
  return (
    <div class="told" role="status">
      {told.value && (
        <p>
          <bdi>{told.value}</bdi>
          <button class="plain" type="button" onClick={() => (told.value = '')}>{tell('close')}</button>
        </p>
      )}
    </div>
  );
}
