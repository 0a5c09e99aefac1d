// A member's place: its rank, its percentile, the distance to the next, and its neighbors.

import { useEffect, useRef, useState } from 'preact/hooks';
import { FollowedDocument, PlaceDocument, type PlaceQuery } from '../generated';
import { ask, needed } from '../ask';
import { type Board, distance, scoreText } from '../figures';
import { number, say } from '../language';
import { follow } from '../live';
import { useLoad } from '../load';
import { boardAddress, go, PAGE, standingsOf, type Chosen } from '../routes';
import { me } from '../token';
import { Rows } from './Rows';
import { Nothing, Shown } from './Trouble';

/** How often the neighbors are asked for again, in milliseconds; the own place is pushed. */
const AGAIN_MS = 15_000;

type Standings = NonNullable<NonNullable<PlaceQuery['board']>['standings']>;

/** A member's place in the standings that are chosen. */
export function usePlace(chosen: Chosen, member: string) {
  const { slug, period } = chosen;
  const of = standingsOf(chosen);
  const loaded = useLoad<Standings | undefined>(async signal => {
    if (!member) return undefined;
    const { data, problems } = await ask(PlaceDocument, { slug, of, member }, signal);
    return needed(needed(data.board, problems).standings, problems);
  }, [slug, of, member], AGAIN_MS);
  const again = useRef(loaded.again);
  again.current = loaded.again;
  useEffect(() => {
    if (!member || period) return;
    // The first answer is of now, as the query's.
    let isFirst = true;
    const next = () => {
      if (!isFirst) again.current();
      isFirst = false;
    };
    return follow(FollowedDocument, { board: slug, of, member }, { next, refuse: () => {} });
  }, [slug, JSON.stringify(of), member, period]);
  return loaded;
}

export function Place({ board, chosen, member, place }: {
  board: Board;
  chosen: Chosen;
  member: string;
  place: ReturnType<typeof usePlace>;
}) {
  const isOther = chosen.member !== undefined && chosen.member !== me.value;
  if (!member) {
    return (
      <details class="card place">
        <summary><h2>{say('place')}</h2></summary>
        <Introduction />
      </details>
    );
  }
  const title = say(isOther ? 'place.of' : 'place', { name: place.value?.entry?.member?.name ?? member });
  return (
    <section class="card place" aria-labelledby="place-title">
      <h2 id="place-title">{title}</h2>
      <Shown of={place} rows={4}>
        {standings => standings && <Standing board={board} chosen={chosen} member={member} standings={standings} />}
      </Shown>
      {isOther && (
        <div class="buttons">
          <button type="button" onClick={() => (me.value = member)}>{say('me.this')}</button>
          <a href={boardAddress({ ...chosen, member: undefined })}>{say(me.value ? 'me.back' : 'place.close')}</a>
        </div>
      )}
      {!isOther && me.value && (
        <button class="plain" type="button" onClick={() => (me.value = '')}>{say('me.not', { name: me.value })}</button>
      )}
    </section>
  );
}

function Introduction() {
  const [key, setKey] = useState('');
  return (
    <form
      onSubmit={event => {
        event.preventDefault();
        me.value = key.trim();
      }}
    >
      <p>{say('me.why')}</p>
      <label class="field">
        {say('me.key')}
        <input value={key} onInput={event => setKey(event.currentTarget.value)} required maxLength={128} autocomplete="off" spellcheck={false} dir="auto" />
      </label>
      <div class="buttons">
        <button type="submit">{say('me.show')}</button>
        <a href="/members">{say('find.name')}</a>
      </div>
    </form>
  );
}

function Standing({ board, chosen, member, standings }: { board: Board; chosen: Chosen; member: string; standings: Standings }) {
  const { entry, neighbors, size } = standings;
  if (!entry) {
    return (
      <Nothing title={say('place.none', { name: member })}>
        <p>{say('place.none.why')}</p>
      </Nothing>
    );
  }
  const { rank, percentile, next, score } = entry;
  const percent = number(percentile / 100, { style: 'percent', maximumFractionDigits: 1 });
  const offset = Math.floor((rank - 1) / PAGE) * PAGE;
  return (
    <>
      <p class="figure">
        <strong>{say('place.rank', { rank })}</strong> <span>{say('place.size', { count: size })}</span>
      </p>
      <p class="hidden" aria-live="polite">{say('place.rank', { rank })}</p>
      <label class="percentile">
        <span>{say('percentile.of', { percent })}</span>
        <progress max={100} value={percentile} />
      </label>
      <p class="ahead">
        {next
          ? say('place.next', {
              distance: scoreText(distance(score, next.score), board),
              name: next.member?.name ?? say('anonymous'),
            })
          : say('place.first')}
      </p>
      {neighbors && neighbors.length > 1 && (
        <Rows rows={neighbors} scored={board} caption={say('neighbors')} mine={member} />
      )}
      {offset !== chosen.offset && (
        <button class="plain" type="button" onClick={() => go(boardAddress({ ...chosen, offset }))}>{say('place.list')}</button>
      )}
    </>
  );
}
