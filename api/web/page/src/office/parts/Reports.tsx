// The reports of members on a board.

import { useState } from 'preact/hooks';
import { ask, needed } from '../../ask';
import { useLoad } from '../../load';
import { Nothing } from '../../parts/Trouble';
import { act, told, troubleText } from '../acts';
import { ReportsDocument, type ReportsQuery, ResolveReportDocument } from '../generated';
import { named, tell } from '../words';
import { When, Who } from './Facts';
import { Listed, usePages } from './Turn';

type Report = NonNullable<NonNullable<ReportsQuery['board']>['reports']>['nodes'][number];

const STATES = ['OPEN', 'UPHELD', 'DISMISSED'] as const;

export function Reports({ slug }: { slug: string }) {
  const [state, setState] = useState<(typeof STATES)[number]>('OPEN');
  const pages = usePages(`${slug} ${state}`);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(ReportsDocument, { slug, states: [state], after: pages.after }, signal);
    return needed(data.board?.reports, problems);
  }, [slug, state, pages.after]);
  return (
    <section class="card" aria-labelledby="reports-title">
      <div class="title">
        <h2 id="reports-title">{tell('reports')}</h2>
        <select aria-label={tell('reports.state')} value={state} onChange={event => setState(event.currentTarget.value as 'OPEN')}>
          {STATES.map(state => <option key={state} value={state}>{named('report', state)}</option>)}
        </select>
      </div>
      <Listed of={loaded} rows={2} pages={pages} look="cases" none={<Nothing title={tell('reports.none')} />}>
        {report => <li key={report.id}><OneReport report={report} slug={slug} again={loaded.again} /></li>}
      </Listed>
    </section>
  );
}

function OneReport({ report, slug, again }: { report: Report; slug: string; again: () => void }) {
  const { id, member, reporter, reason, text, further, reportedAt, state } = report;
  const resolve = async (resolution: 'UPHELD' | 'DISMISSED') => {
    try {
      await act(ResolveReportDocument, { id, resolution }, data => data.resolveReport);
      told.value = tell('report.resolved', { member: member.name });
    } catch (error) {
      told.value = troubleText(error);
    }
    again();
  };
  return (
    <article class="case">
      <Who of={member} board={slug} />
      <div>
        <p><strong>{named('reason', reason)}</strong> {text && <q><bdi>{text}</bdi></q>}</p>
        <p class="note">
          {tell('report.by', { reporter: reporter.name })} · <When at={reportedAt} />
          {further > 0 && ` · ${tell('report.further', { count: further })}`}
        </p>
      </div>
      <div class="buttons">
        {state !== 'UPHELD' && <button type="button" aria-label={tell('report.uphold.of', { member: member.name })} onClick={() => resolve('UPHELD')}>{tell('report.uphold')}</button>}
        {state !== 'DISMISSED' && <button type="button" aria-label={tell('report.dismiss.of', { member: member.name })} onClick={() => resolve('DISMISSED')}>{tell('report.dismiss')}</button>}
      </div>
    </article>
  );
}
