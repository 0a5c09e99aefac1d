// The dialog in which an access token is entered: hidden, and kept for this tab only.

import { useEffect, useRef } from 'preact/hooks';
import { say } from '../language';
import { token, tokenIsAsked } from '../token';

/** `why` says what the token is for. */
export function TokenDialog({ why }: { why: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const open = tokenIsAsked.value;
  useEffect(() => {
    if (!open) return dialog.current?.close();
    dialog.current?.showModal();
    if (field.current) field.current.value = token.peek();
  }, [open]);
  const close = () => (tokenIsAsked.value = false);
  const save = (value: string) => {
    token.value = value.trim();
    close();
  };
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="token-title">
      <form
        onSubmit={event => {
          event.preventDefault();
          save(field.current?.value ?? '');
        }}
      >
        <h2 id="token-title">{say('token')}</h2>
        <p>{why}</p>
        <label class="field">
          {say('token')}
          <input ref={field} type="password" autocomplete="off" spellcheck={false} dir="ltr" />
        </label>
        <p class="note">{say('token.kept')}</p>
        <div class="buttons">
          <button class="strong" type="submit">{say('token.use')}</button>
          {token.value && <button type="button" onClick={() => save('')}>{say('token.forget')}</button>}
          <button type="button" onClick={close}>{say('cancel')}</button>
        </div>
      </form>
    </dialog>
  );
}
