// The details of an entry: its time, its place in percent, the scores in it, and its metadata.

import type { StandingsOf } from '../generated';
import { DetailsDocument } from '../generated';
import { ask, needed } from '../ask';
import { number, say, time } from '../language';
import { useLoad } from '../load';
import { Shown } from './Trouble';

export function Details({ slug, of, member, metadata }: { slug: string; of: StandingsOf; member: string; metadata: boolean }) {
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(DetailsDocument, { slug, of, member }, signal);
    return needed(data.board?.standings?.entry, problems);
  }, [slug, of, member]);
  return (
    <Shown of={loaded} rows={1}>
      {entry => (
        <dl class="facts">
          {entry.reachedAt && (
            <div>
              <dt>{say('reached')}</dt>
              <dd><time dateTime={entry.reachedAt}>{time(entry.reachedAt, { dateStyle: 'medium', timeStyle: 'medium' })}</time></dd>
            </div>
          )}
          <div>
            <dt>{say('percentile')}</dt>
            <dd>{say('percentile.of', { percent: number(entry.percentile / 100, { style: 'percent', maximumFractionDigits: 1 }) })}</dd>
          </div>
          {entry.scoresCounted !== null && (
            <div>
              <dt>{say('counted')}</dt>
              <dd>{number(entry.scoresCounted)}</dd>
            </div>
          )}
          {metadata && <Metadata value={entry.metadata} />}
        </dl>
      )}
    </Shown>
  );
}

/** Metadata: the names and values of an object, or the value as it is. */
function Metadata({ value }: { value: unknown }) {
  if (value === null || value === undefined) return null;
  const isObject = typeof value === 'object' && !Array.isArray(value);
  const facts = isObject ? Object.entries(value as object) : [[say('metadata'), value]];
  return (
    <>
      {facts.map(([name, fact]) => (
        <div key={name}>
          <dt><bdi>{name}</bdi></dt>
          <dd><bdi>{typeof fact === 'string' ? fact : JSON.stringify(fact)}</bdi></dd>
        </div>
      ))}
    </>
  );
}
