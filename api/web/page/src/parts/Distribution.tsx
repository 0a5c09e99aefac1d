// The distribution of scores: a chart for the eye, and a table behind it for everyone.

import { DistributionDocument } from '../generated';
import { ask, needed } from '../ask';
import { type Board, scoreText } from '../figures';
import { number, say } from '../language';
import { useLoad } from '../load';
import { standingsOf, type Chosen } from '../routes';
import { Nothing, Shown } from './Trouble';

/** How often it is asked for again, in milliseconds. */
const AGAIN_MS = 60_000;

/** The chart's size, in units of its own. */
const WIDTH = 480;
const HEIGHT = 120;

interface Bucket {
  lower: string;
  upper: string;
  count: number;
}

export function Distribution({ board, chosen, score }: { board: Board; chosen: Chosen; score: string | undefined }) {
  const of = standingsOf(chosen);
  const { slug } = chosen;
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(DistributionDocument, { slug, of }, signal);
    return needed(needed(data.board, problems).standings?.distribution, problems);
  }, [slug, of], AGAIN_MS);
  return (
    <section class="card" aria-labelledby="distribution-title">
      <h2 id="distribution-title">{say('distribution')}</h2>
      <Shown of={loaded} rows={3}>
        {buckets =>
          buckets.length ? <Chart buckets={buckets} board={board} score={score} /> : <Nothing title={say('distribution.none')} />
        }
      </Shown>
    </section>
  );
}

function Chart({ buckets, board, score }: { buckets: readonly Bucket[]; board: Board; score: string | undefined }) {
  const most = Math.max(...buckets.map(({ count }) => count));
  const step = WIDTH / buckets.length;
  // Many members have little and few have much: a root shows both.
  const height = (count: number) => (count ? Math.max(2, HEIGHT * Math.sqrt(count / most)) : 0);
  const value = score === undefined ? undefined : Number(score);
  const isMine = ({ lower, upper }: Bucket, index: number) =>
    value !== undefined && value >= Number(lower) && (value < Number(upper) || index === buckets.length - 1);
  const span = ({ lower, upper }: Bucket) => `${scoreText(lower, board)} – ${scoreText(upper, board)}`;
  const [first, last] = [buckets[0]!, buckets.at(-1)!];
  return (
    <>
      <svg class="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={say('distribution.shows', { low: scoreText(first.lower, board), high: scoreText(last.upper, board) })} preserveAspectRatio="none">
        {buckets.map((bucket, index) => (
          <rect
            key={bucket.lower}
            class={isMine(bucket, index) ? 'mine' : ''}
            x={index * step + 1}
            width={step - 2}
            y={HEIGHT - height(bucket.count)}
            height={height(bucket.count)}
          >
            <title>{`${span(bucket)}: ${say('members', { count: bucket.count })}`}</title>
          </rect>
        ))}
      </svg>
      <p class="ends" aria-hidden="true" dir="ltr">
        <span>{scoreText(first.lower, board)}</span>
        <span>{scoreText(last.upper, board)}</span>
      </p>
      {value !== undefined && <p class="note">{say('distribution.mine')}</p>}
      <details>
        <summary>{say('distribution.table')}</summary>
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">{say('scores')}</th>
              <th scope="col">{say('members.head')}</th>
            </tr>
          </thead>
          <tbody>
            {buckets.filter(({ count }) => count).map(bucket => (
              <tr key={bucket.lower}>
                <td><bdi>{span(bucket)}</bdi></td>
                <td>{number(bucket.count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
  );
}
