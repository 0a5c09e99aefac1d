// The access token, kept in this tab's session only and sent to this server only, and the member that the reader is.

import { effect, signal } from '@preact/signals';

/** GraphiQL has the same key. */
const TOKEN = 'laurel:access-token';
const MEMBER = 'laurel:member';

/** A store of the browser; where a frame may have none, texts are kept as long as the page. */
function kept(name: 'sessionStorage' | 'localStorage', key: string) {
  const value = signal('');
  try {
    const store = window[name];
    value.value = store.getItem(key) ?? '';
    effect(() => {
      if (value.value) store.setItem(key, value.value);
      else store.removeItem(key);
    });
  } catch {
    // The browser refuses.
  }
  return value;
}

/** The access token; empty for none. */
export const token = kept('sessionStorage', TOKEN);

/** The key of the member that the reader says to be; empty for none. */
export const me = kept('localStorage', MEMBER);

/** True while the dialog for the token is open. */
export const tokenIsAsked = signal(false);
