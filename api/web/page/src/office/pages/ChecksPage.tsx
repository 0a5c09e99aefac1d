// The runs of the diff between the history, SQL and Redis: the last one with its findings, and those before.

import { useState } from 'preact/hooks';
import { ask, needed } from '../../ask';
import { number } from '../../language';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing, Shown } from '../../parts/Trouble';
import { FindingsDocument, RunsDocument, type RunsQuery } from '../generated';
import { Facts, OnBoard, When } from '../parts/Facts';
import { Listed, Turn, usePages } from '../parts/Turn';
import { named, tell } from '../words';

type Run = NonNullable<RunsQuery['integrityRuns']>['nodes'][number];

/** How often the runs are asked for again, in milliseconds. */
const AGAIN_MS = 10_000;

export function ChecksPage() {
  useTitle(tell('section.checks'));
  const pages = usePages('');
  const [open, setOpen] = useState('');
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(RunsDocument, { after: pages.after }, signal);
    return needed(data.integrityRuns, problems);
  }, [pages.after], AGAIN_MS);
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.checks')}</h1>
      <Listed of={loaded} rows={6} pages={pages} look="entries wide" none={<Empty />}>
        {(run, index) => {
          const isLast = pages.number === 1 && index === 0;
          const isOpen = open === run.id || (isLast && open === '');
          return (
            <li key={run.id} class="card">
              <OneRun run={run} title={isLast ? tell('check.last') : run.id.replace('integrityRun:', '#')} />
              {run.found > 0 && (
                <div class="buttons">
                  <button type="button" aria-expanded={isOpen} onClick={() => setOpen(isOpen ? '-' : run.id)}>{tell('findings')}</button>
                </div>
              )}
              {isOpen && run.found > 0 && <Findings run={run.id} />}
            </li>
          );
        }}
      </Listed>
    </>
  );
}

function Empty() {
  return (
    <Nothing title={tell('checks.none')}>
      <p>{tell('checks.none.why')}</p>
    </Nothing>
  );
}

function OneRun({ run: { board, startedAt, finishedAt, checked, found, repaired }, title }: { run: Run; title: string }) {
  return (
    <>
      <div class="title">
        <h2>{title}</h2>
        <span class={`tag ${found > repaired ? 'bad' : ''}`}>{found ? tell('check.found', { count: found }) : tell('check.clean')}</span>
      </div>
      <Facts
        of={[
          [tell('check.of'), <OnBoard key="board" board={board} />],
          [tell('check.started'), <When key="started" at={startedAt} />],
          [tell('check.finished'), finishedAt ? <When key="finished" at={finishedAt} /> : tell('check.unfinished')],
          [tell('check.checked'), number(checked)],
          [tell('check.repaired'), number(repaired)],
        ]}
      />
    </>
  );
}

function Findings({ run }: { run: string }) {
  const pages = usePages(run);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(FindingsDocument, { id: run, after: pages.after }, signal);
    return needed(data.integrityRun?.findings, problems);
  }, [run, pages.after]);
  return (
    <Shown of={loaded} rows={3}>
      {({ nodes, pageInfo }) => (
        <>
          <ul class="cases">
            {nodes.map(({ id, kind, place, note, board, member, window, period, segment, history, sql, redis, repaired }) => (
              <li key={id} class="case">
                <p>
                  <strong>{named('finding', kind)}</strong> · {named('place', place)}
                  {repaired && <span class="tag">{tell('check.is.repaired')}</span>}
                </p>
                <p class="note"><bdi>{[board?.slug, window, period, segment, member].filter(Boolean).join(' · ')}</bdi></p>
                <p class="note">
                  {tell('finding.history')} <bdi>{history ?? '–'}</bdi> · SQL <bdi>{sql ?? '–'}</bdi> · Redis <bdi>{redis ?? '–'}</bdi>
                </p>
                {note && <p class="note" lang="en" dir="ltr">{note}</p>}
              </li>
            ))}
          </ul>
          <Turn pages={pages} info={pageInfo} />
        </>
      )}
    </Shown>
  );
}
