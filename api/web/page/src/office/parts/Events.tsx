// The events of a member on a board, the last one first; a score or a removal can be voided.

import { ask, needed } from '../../ask';
import { say } from '../../language';
import { useLoad } from '../../load';
import { Nothing, Shown } from '../../parts/Trouble';
import { act, askFirst } from '../acts';
import { EventsDocument, type EventsQuery, VoidEventDocument } from '../generated';
import { address, go } from '../routes';
import { named, tell } from '../words';
import { When } from './Facts';
import { Form, Text } from './Form';
import { Turn, usePages } from './Turn';

type Event = NonNullable<NonNullable<EventsQuery['member']>['events']>['nodes'][number];

export function Events({ member, board, boards, again }: { member: string; board: string; boards: readonly string[]; again: () => void }) {
  return (
    <section class="card" aria-labelledby="events-title">
      <h2 id="events-title">{tell('events')}</h2>
      <Form
        verb={tell('events.show')}
        strong={false}
        act={filled => go(address('members', member, { board: filled.text('events of') }), { replace: true })}
      >
        <Text name="events of" label={tell('board')} value={board} required list="boards-of-member" />
        <datalist id="boards-of-member">
          {boards.map(slug => <option key={slug} value={slug} />)}
        </datalist>
      </Form>
      {board && <List key={board} member={member} board={board} again={again} />}
    </section>
  );
}

function List({ member, board, again }: { member: string; board: string; again: () => void }) {
  const pages = usePages(`${member} ${board}`);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(EventsDocument, { key: member, board, after: pages.after }, signal);
    return needed(data.member?.events, problems);
  }, [member, board, pages.after]);
  const voided = ({ id, score }: Event) =>
    askFirst({
      title: tell('event.void'),
      text: tell('event.void.why', { score: score ?? '–', member }),
      verb: tell('event.void'),
      run: async () => {
        await act(VoidEventDocument, { id }, data => data.voidEvent);
        loaded.again();
        again();
        return tell('event.voided');
      },
    });
  return (
    <Shown of={loaded} rows={4}>
      {({ nodes, totalCount, archivedCount, pageInfo }) => (
        <>
          <p class="note">
            {tell('events.count', { count: totalCount })}
            {archivedCount > 0 && ` · ${say('history.archived', { count: archivedCount })}`}
          </p>
          {nodes.length ? (
            <ul class="rows-of-fields">
              {nodes.map(event => (
                <li key={event.id} class={event.voided ? 'goes' : ''}>
                  <div>
                    <p>
                      {event.score === null ? named('event', event.kind) : <strong><bdi class="figure-of">{event.score}</bdi></strong>}
                      {event.voided && <span class="tag">{tell('event.is.voided')}</span>}
                    </p>
                    <p class="note">
                      <When at={event.at ?? event.acceptedAt} />
                      {event.eventId && <> · <bdi>{event.eventId}</bdi></>}
                    </p>
                  </div>
                  {event.kind !== 'VOID' && !event.voided && (
                    <button type="button" aria-label={tell('event.void.of', { score: event.score ?? named('event', event.kind) })} onClick={() => voided(event)}>
                      {tell('event.void')}
                    </button>
                  )}
                </li>
              ))}
            </ul>
          ) : (
            <Nothing title={say('history.none')} />
          )}
          <Turn pages={pages} info={pageInfo} />
        </>
      )}
    </Shown>
  );
}
