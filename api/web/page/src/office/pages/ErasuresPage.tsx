// The receipts of erasures, and the one that was just handed out.

import { ask, needed } from '../../ask';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing } from '../../parts/Trouble';
import { ReceiptsDocument } from '../generated';
import { handed, Receipt } from '../parts/Receipt';
import { Listed, usePages } from '../parts/Turn';
import { tell } from '../words';

/** How often they are asked for again, as erasures go on, in milliseconds. */
const AGAIN_MS = 10_000;

export function ErasuresPage() {
  useTitle(tell('section.erasures'));
  const pages = usePages('');
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(ReceiptsDocument, { after: pages.after }, signal);
    return needed(data.erasureReceipts, problems);
  }, [pages.after], AGAIN_MS);
  const mine = handed.value?.id;
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.erasures')}</h1>
      <p class="note">{tell('receipt.why')}</p>
      <Listed of={loaded} rows={4} pages={pages} look="entries wide" none={<Nothing title={tell('receipts.none')} />}>
        {receipt => (
          <li key={receipt.id} class={`card ${receipt.id === mine ? 'new' : ''}`}>
            {receipt.id === mine && <h2>{tell('receipt.mine')}</h2>}
            <Receipt of={receipt} />
          </li>
        )}
      </Listed>
    </>
  );
}
