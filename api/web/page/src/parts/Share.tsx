// Sharing: the address of what is shown, and the lines that show a list in another page.

import { useState } from 'preact/hooks';
import { say } from '../language';
import { boardAddress, type Chosen } from '../routes';
import { settings } from '../settings';

export function Share({ title, chosen }: { title: string; chosen?: Chosen }) {
  const [told, setTold] = useState('');
  const share = async () => {
    const url = location.href;
    try {
      if (navigator.share && matchMedia('(pointer: coarse)').matches) await navigator.share({ title, url });
      else {
        await navigator.clipboard.writeText(url);
        setTold(say('share.done'));
      }
    } catch (error) {
      // The reader thought better of it, or the browser has no clipboard for a page without TLS.
      if ((error as Error).name !== 'AbortError') setTold(url);
    }
  };
  return (
    <div class="share">
      <button type="button" onClick={share}>{say('share')}</button>
      <span class="note" role="status">{told}</span>
      {chosen && settings.embed && <Embedding title={title} chosen={chosen} />}
    </div>
  );
}

function Embedding({ title, chosen }: { title: string; chosen: Chosen }) {
  const address = location.origin + boardAddress({ ...chosen, member: undefined, offset: 0 }, 'embed');
  const quoted = (text: string) => text.replace(/&/g, '&amp;').replace(/"/g, '&quot;');
  const lines = `<iframe src="${quoted(address)}" title="${quoted(title)}" width="360" height="560" style="border: 0" loading="lazy"></iframe>`;
  return (
    <details>
      <summary>{say('embed')}</summary>
      <p class="note">{say('embed.why')}</p>
      <textarea readOnly rows={4} dir="ltr" aria-label={say('embed')} value={lines} onFocus={event => event.currentTarget.select()} />
    </details>
  );
}
