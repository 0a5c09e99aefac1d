// The jobs, with their progress.

import { ask, needed } from '../../ask';
import { number } from '../../language';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing } from '../../parts/Trouble';
import { JobsDocument } from '../generated';
import { OnBoard, When } from '../parts/Facts';
import { Listed, usePages } from '../parts/Turn';
import { named, tell } from '../words';

/** How often they are asked for again, in milliseconds. */
const AGAIN_MS = 3_000;

export function JobsPage() {
  useTitle(tell('section.jobs'));
  const pages = usePages('');
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(JobsDocument, { after: pages.after }, signal);
    return needed(data.jobs, problems);
  }, [pages.after], AGAIN_MS);
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.jobs')}</h1>
      <Listed of={loaded} rows={6} pages={pages} none={<Nothing title={tell('jobs.none')} />}>
        {({ id, kind, board, state, progress, startedAt, finishedAt, summary }) => (
          <li key={id} class="card">
            <div class="title">
              <h2>{named('job', kind)}</h2>
              <span class={`tag ${state === 'FAILED' ? 'bad' : ''}`}>{named('state', state)}</span>
            </div>
            {state === 'RUNNING' && (
              <label class="percentile">
                <span>{number(progress, { style: 'percent' })}</span>
                <progress max={1} value={progress} />
              </label>
            )}
            {summary && <p lang="en" dir="ltr">{summary}</p>}
            <p class="note">
              <OnBoard board={board} /> · <When at={startedAt} />
              {finishedAt && <> – <When at={finishedAt} /></>}
            </p>
          </li>
        )}
      </Listed>
    </>
  );
}
