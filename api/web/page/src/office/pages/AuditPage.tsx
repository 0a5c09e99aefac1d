// The audit log: who did what, with the values before and after.

import { ask, needed } from '../../ask';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing } from '../../parts/Trouble';
import { AuditDocument, type AuditQuery } from '../generated';
import { Facts, When } from '../parts/Facts';
import { Form, Text } from '../parts/Form';
import { Listed, usePages } from '../parts/Turn';
import { address, go } from '../routes';
import { named, tell } from '../words';

type Entry = NonNullable<AuditQuery['auditLog']>['nodes'][number];

/** The fields by which the log is filtered. */
const FIELDS = ['act', 'actor', 'board', 'member'] as const;

export function AuditPage({ query }: { query: URLSearchParams }) {
  useTitle(tell('section.audit'));
  const filter: Record<string, string> = Object.fromEntries(FIELDS.flatMap(field => (query.get(field) ? [[field, query.get(field)!]] : [])));
  const key = JSON.stringify(filter);
  const pages = usePages(key);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(AuditDocument, { filter, after: pages.after }, signal);
    return needed(data.auditLog, problems);
  }, [key, pages.after]);
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.audit')}</h1>
      <details class="card" open={key !== '{}'}>
        <summary><h2>{tell('audit.filter')}</h2></summary>
        <Form
          key={key}
          verb={tell('audit.show')}
          strong={false}
          act={filled => go(address('audit', '', Object.fromEntries(FIELDS.flatMap(field => (filled.some(field) ? [[field, filled.text(field)]] : [])))), { replace: true })}
        >
          <div class="fields">
            {FIELDS.map(field => <Text key={field} name={field} label={tell(`audit.${field}`)} hint={tell(`audit.${field}.hint`)} value={filter[field] ?? ''} />)}
          </div>
        </Form>
      </details>
      <Listed of={loaded} rows={8} pages={pages} look="entries wide" none={<Nothing title={tell('audit.none')} />}>
        {entry => <li key={entry.id} class="card"><OneAct entry={entry} /></li>}
      </Listed>
    </>
  );
}

function OneAct({ entry: { at, actor, actorName, act, board, member, outcome, error, before, after } }: { entry: Entry }) {
  return (
    <>
      <div class="title">
        <h2><bdi>{act}</bdi></h2>
        <span class={`tag ${outcome === 'FAILED' ? 'bad' : ''}`}>{named('outcome', outcome)}</span>
      </div>
      <Facts
        of={[
          [tell('audit.at'), <When key="at" at={at} />],
          [tell('audit.actor'), actorName ? `${actorName} (${actor})` : actor],
          [tell('audit.board'), board],
          [tell('audit.member'), member && <a key="member" href={address('members', member)}><bdi>{member}</bdi></a>],
          [tell('audit.error'), error],
        ]}
      />
      {(before || after) && (
        <details>
          <summary>{tell('audit.values')}</summary>
          {before && <><h3>{tell('audit.before')}</h3><pre dir="ltr" tabIndex={0}>{pretty(before)}</pre></>}
          {after && <><h3>{tell('audit.after')}</h3><pre dir="ltr" tabIndex={0}>{pretty(after)}</pre></>}
        </details>
      )}
    </>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
