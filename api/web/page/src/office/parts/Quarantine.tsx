// The scores of a board in quarantine: each with the reason, to be released or voided.

import { useEffect, useState } from 'preact/hooks';
import { ask, needed } from '../../ask';
import { number } from '../../language';
import { useLoad } from '../../load';
import { Nothing, Shown } from '../../parts/Trouble';
import { act, askFirst, told, troubleText } from '../acts';
import { QuarantineDocument, type QuarantineQuery, ReleaseDocument, VoidQuarantinedDocument } from '../generated';
import { named, tell } from '../words';
import { When, Who } from './Facts';
import { Turn, usePages } from './Turn';

type Score = NonNullable<NonNullable<QuarantineQuery['board']>['quarantine']>['nodes'][number];

const STATES = ['HELD', 'RELEASING', 'RELEASED', 'VOIDED'] as const;

/** The word about scores that were decided, with the reasons of those that were not. */
function wordOf(word: 'quarantine.released' | 'quarantine.voided', good: readonly string[], results: readonly { outcome: string; error: { message: string } | null }[]) {
  const done = results.filter(({ outcome }) => good.includes(outcome)).length;
  const reasons = results.flatMap(({ error }) => (error ? [error.message] : []));
  return [tell(word, { count: done }), ...reasons].join(' ');
}

export function Quarantine({ slug }: { slug: string }) {
  const [state, setState] = useState<(typeof STATES)[number]>('HELD');
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const pages = usePages(`${slug} ${state}`);
  useEffect(() => setChosen([]), [slug, state, pages.after]);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(QuarantineDocument, { slug, states: [state], after: pages.after }, signal);
    return needed(data.board?.quarantine, problems);
  }, [slug, state, pages.after]);
  const decided = (word: string) => {
    setChosen([]);
    loaded.again();
    return word;
  };
  const release = async () => {
    try {
      const { results } = await act(ReleaseDocument, { numbers: [...chosen] }, data => data.releaseQuarantined);
      told.value = decided(wordOf('quarantine.released', ['RELEASED', 'COUNTED'], results));
    } catch (error) {
      told.value = troubleText(error);
    }
  };
  const voidThem = () =>
    askFirst({
      title: tell('quarantine.void'),
      text: tell('quarantine.void.why', { count: chosen.length }),
      verb: tell('quarantine.void'),
      run: async () => {
        const { results } = await act(VoidQuarantinedDocument, { numbers: [...chosen] }, data => data.voidQuarantined);
        return decided(wordOf('quarantine.voided', ['VOIDED'], results));
      },
    });
  const isOpen = state === 'HELD' || state === 'RELEASING';
  return (
    <section class="card" aria-labelledby="quarantine-title">
      <div class="title">
        <h2 id="quarantine-title">{tell('quarantine')}</h2>
        <select aria-label={tell('quarantine.state')} value={state} onChange={event => setState(event.currentTarget.value as 'HELD')}>
          {STATES.map(state => <option key={state} value={state}>{named('quarantined', state)}</option>)}
        </select>
      </div>
      <Shown of={loaded} rows={2}>
        {({ nodes, pageInfo }) => (
          <>
            {nodes.length ? (
              <ul class="cases">
                {nodes.map(score => (
                  <li key={score.id}>
                    <OneScore
                      score={score}
                      slug={slug}
                      chosen={isOpen ? chosen.includes(score.number) : undefined}
                      choose={() => setChosen(chosen.includes(score.number) ? chosen.filter(other => other !== score.number) : [...chosen, score.number])}
                    />
                  </li>
                ))}
              </ul>
            ) : (
              <Nothing title={tell('quarantine.none')} />
            )}
            {isOpen && nodes.length > 0 && (
              <div class="buttons">
                <button type="button" onClick={() => setChosen(chosen.length === nodes.length ? [] : nodes.map(({ number }) => number))}>{tell('choose.all')}</button>
                <button class="strong" type="button" disabled={!chosen.length} onClick={release}>{tell('quarantine.release')}</button>
                <button class="danger" type="button" disabled={!chosen.length} onClick={voidThem}>{tell('quarantine.void')}</button>
                <span class="note" role="status">{tell('chosen', { count: number(chosen.length) })}</span>
              </div>
            )}
            <Turn pages={pages} info={pageInfo} />
          </>
        )}
      </Shown>
    </section>
  );
}

function OneScore({ score: { number: id, member, score, at, message, suspicion, receivedAt, eventId }, slug, chosen, choose }: {
  score: Score;
  slug: string;
  chosen: boolean | undefined;
  choose: () => void;
}) {
  return (
    <article class="case">
      <div class="chosen">
        {chosen !== undefined && <input type="checkbox" checked={chosen} onChange={choose} aria-label={tell('choose', { score, member, number: id })} />}
        <Who of={{ key: member }} board={slug} />
      </div>
      <div>
        <p><strong><bdi class="figure-of">{score}</bdi></strong> {named('suspicion', suspicion)}</p>
        <p class="note" lang="en" dir="ltr">{message}</p>
        <p class="note">
          {tell('quarantine.earned')} <When at={at} /> · {tell('quarantine.received')} <When at={receivedAt} />
          {eventId && <> · <bdi>{eventId}</bdi></>}
        </p>
      </div>
    </article>
  );
}
