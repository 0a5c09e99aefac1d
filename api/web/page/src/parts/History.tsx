// A member's history on a board: its last scores as a line, and as a table.

import type { HistoryQuery } from '../generated';
import { type Scored, scoreText } from '../figures';
import { say, time } from '../language';
import { Nothing } from './Trouble';

type Events = NonNullable<NonNullable<HistoryQuery['member']>['events']>;
type Event = Events['nodes'][number];

/** The line's size, in units of its own. */
const WIDTH = 480;
const HEIGHT = 80;

export function History({ events, scored }: { events: Events; scored: Scored }) {
  const { nodes, totalCount, archivedCount } = events;
  if (!nodes.length) return <Nothing title={say('history.none')} />;
  return (
    <>
      <Line events={nodes} />
      <table class="plain">
        <caption><span class="hidden">{say('history')}</span></caption>
        <thead>
          <tr>
            <th scope="col">{say('history.at')}</th>
            <th scope="col">{say('score')}</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map(event => (
            <tr key={event.id} class={event.voided ? 'voided' : ''}>
              <td>
                <time dateTime={event.at ?? event.acceptedAt}>
                  {time(event.at ?? event.acceptedAt, { dateStyle: 'medium', timeStyle: 'short' })}
                </time>
              </td>
              <td><bdi>{scoreOf(event, scored)}</bdi></td>
            </tr>
          ))}
        </tbody>
      </table>
      {totalCount > nodes.length && <p class="note">{say('history.more', { count: totalCount - nodes.length })}</p>}
      {archivedCount > 0 && <p class="note">{say('history.archived', { count: archivedCount })}</p>}
    </>
  );
}

function scoreOf({ kind, score, voided }: Event, scored: Scored): string {
  if (score === null) return say(kind === 'REMOVAL' ? 'history.removal' : 'history.void');
  const text = scoreText(score, scored);
  return voided ? `${text} (${say('history.voided')})` : text;
}

/** The scores that count, from the earliest to the latest. */
function Line({ events }: { events: readonly Event[] }) {
  const scores = events.filter(({ score, voided }) => score !== null && !voided).map(({ score }) => Number(score)).reverse();
  if (scores.length < 2) return null;
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const span = high - low || 1;
  const point = (score: number, index: number) =>
    `${((index / (scores.length - 1)) * WIDTH).toFixed(1)},${(HEIGHT - 4 - ((score - low) / span) * (HEIGHT - 8)).toFixed(1)}`;
  return (
    <svg class="chart line" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <polyline points={scores.map(point).join(' ')} />
    </svg>
  );
}
