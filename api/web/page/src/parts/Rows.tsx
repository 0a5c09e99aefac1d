// The rows of a list. A row that changes its place glides there, and the rows around it keep their height: nothing jumps.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { RowFragment } from '../generated';
import { type Scored, scoreText } from '../figures';
import { number, say } from '../language';
import { standingsOf, type Chosen } from '../routes';
import { Details } from './Details';
import { Person } from './Person';

export type Row = RowFragment & { change?: number | null };

const GLIDE_MS = 450;

/** Lets rows glide from where they were. */
function useGlide(rows: readonly Row[]) {
  const body = useRef<HTMLTableSectionElement>(null);
  const before = useRef(new Map<string, { top: number; score: string }>());
  useLayoutEffect(() => {
    const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    const after = new Map<string, { top: number; score: string }>();
    for (const element of body.current?.querySelectorAll<HTMLElement>('tr[data-id]') ?? []) {
      const { id = '', score = '' } = element.dataset;
      const top = element.offsetTop;
      after.set(id, { top, score });
      const old = before.current.get(id);
      if (!old || calm) continue;
      const by = old.top - top;
      if (by) element.animate([{ transform: `translateY(${by}px)` }, { transform: 'none' }], { duration: GLIDE_MS, easing: 'ease-out' });
      if (old.score !== score) element.animate([{ backgroundColor: 'var(--flash)' }, {}], { duration: 1_500, easing: 'ease-out' });
    }
    before.current = after;
  }, [rows]);
  return body;
}

function Change({ by }: { by: number | null | undefined }) {
  if (by === null || by === undefined) return null;
  if (by === 0) return <span class="change same" title={say('change.same')}>=</span>;
  const text = say(by > 0 ? 'change.up' : 'change.down', { count: Math.abs(by) });
  return (
    <span class={`change ${by > 0 ? 'up' : 'down'}`} title={text}>
      <span aria-hidden="true">{by > 0 ? '▲' : '▼'}{number(Math.abs(by))}</span>
      <span class="hidden">{text}</span>
    </span>
  );
}

/** The names of the columns, for those who do not see the table. */
export function Columns({ caption, rank, details }: { caption: string; rank: string; details: boolean }) {
  const column = (kind: string, name: string) => (
    <th scope="col" class={kind}><span class="hidden">{name}</span></th>
  );
  return (
    <>
      <caption><span class="hidden">{caption}</span></caption>
      <thead>
        <tr>
          {column('rank', rank)}
          {column('who', say('member'))}
          {column('score', say('score'))}
          {details && column('more', say('details'))}
        </tr>
      </thead>
    </>
  );
}

export function Rows({ rows, scored, caption, mine, chosen, target }: {
  rows: readonly Row[];
  scored: Scored;
  caption: string;
  /** The key of the member whose row stands out. */
  mine?: string | undefined;
  /** The standings, where rows have details. */
  chosen?: Chosen & { metadata: boolean };
  target?: string;
}) {
  const body = useGlide(rows);
  const [open, setOpen] = useState('');
  return (
    <table class="rows">
      <Columns caption={caption} rank={say('rank')} details={chosen !== undefined} />
      <tbody ref={body}>
        {rows.map(row => {
          const isMine = mine !== undefined && row.member?.key === mine;
          const isOpen = open === row.id;
          return [
            <tr key={row.id} data-id={row.id} data-score={row.score} class={isMine ? 'mine' : ''} {...(isMine && { 'aria-current': 'true' })}>
              <td class={`rank ${row.rank <= 3 ? `medal medal${row.rank}` : ''}`}>
                <span>{number(row.rank)}</span>
                <Change by={row.change} />
              </td>
              <td>
                <Person member={row.member} {...(target && { target })} />
              </td>
              <td class="score"><bdi>{scoreText(row.score, scored)}</bdi></td>
              {chosen && (
                <td class="more">
                  {row.member && (
                    <button
                      type="button"
                      aria-expanded={isOpen}
                      aria-label={say('details.of', { name: row.member.name })}
                      onClick={() => setOpen(isOpen ? '' : row.id)}
                    >
                      <span aria-hidden="true">{isOpen ? '–' : '+'}</span>
                    </button>
                  )}
                </td>
              )}
            </tr>,
            isOpen && chosen && row.member && (
              <tr key={`${row.id} details`} class="opened">
                <td colSpan={4}>
                  <Details slug={chosen.slug} of={standingsOf(chosen)} member={row.member.key} metadata={chosen.metadata} />
                </td>
              </tr>
            ),
          ];
        })}
      </tbody>
    </table>
  );
}
