// The partitions, with their state and how far the database is behind each.

import { ask, needed } from '../../ask';
import { number } from '../../language';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing } from '../../parts/Trouble';
import { PartitionsDocument } from '../generated';
import { Listed, usePages } from '../parts/Turn';
import { address } from '../routes';
import { named, tell } from '../words';

/** How often they are asked for again, in milliseconds. */
const AGAIN_MS = 3_000;

export function PartitionsPage({ unwell }: { unwell: boolean }) {
  useTitle(tell('section.partitions'));
  const pages = usePages('');
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(PartitionsDocument, { unwell, after: pages.after }, signal);
    return needed(data.partitions, problems);
  }, [unwell, pages.after], AGAIN_MS);
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.partitions')}</h1>
      <nav class="windows" aria-label={tell('section.partitions')}>
        <a href={address('partitions')} {...(!unwell && { 'aria-current': 'page' })}>{tell('partitions.all')}</a>
        <a href={address('partitions', '', { unwell: 'only' })} {...(unwell && { 'aria-current': 'page' })}>{tell('partitions.unwell')}</a>
      </nav>
      <Listed of={loaded} rows={6} pages={pages} none={<Nothing title={tell('partitions.none')} />}>
        {({ number: no, state, commitsBehind, secondsBehind, stuckBy, error }) => (
          <li key={no} class="card">
            <div class="title">
              <h2>{tell('partition', { number: number(no) })}</h2>
              <span class={`tag ${state === 'LEVEL' ? '' : 'bad'}`}>{named('partition', state)}</span>
            </div>
            {stuckBy && <p>{named('stuck', stuckBy)}</p>}
            <p class="note">
              {commitsBehind
                ? tell('partition.behind', { commits: number(commitsBehind), seconds: number(Math.round(secondsBehind)) })
                : tell('partition.written')}
            </p>
            {error && <p lang="en" dir="ltr">{error}</p>}
          </li>
        )}
      </Listed>
    </>
  );
}
