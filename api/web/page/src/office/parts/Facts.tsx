// Facts: a time, a member, a board, and names with their values.

import type { ComponentChildren } from 'preact';
import { time } from '../../language';
import { Picture } from '../../parts/Person';
import { address } from '../routes';
import { tell } from '../words';

export function When({ at }: { at: string }) {
  return <time dateTime={at}>{time(at, { dateStyle: 'medium', timeStyle: 'short' })}</time>;
}

/** An instant in UTC, as an input of the browser has it. */
export function utc(at: string): string {
  return time(at, { dateStyle: 'medium', timeStyle: 'short' }, 'UTC');
}

export function Who({ of: { key, name }, board }: { of: { key: string; name?: string | null }; board?: string }) {
  return (
    <a class="person" href={address('members', key, board ? { board } : {})}>
      <Picture address={null} name={name ?? key} of={key} />
      <span class="names">
        <bdi class="name">{name ?? key}</bdi>
        {name && name !== key && <bdi class="key">{key}</bdi>}
      </span>
    </a>
  );
}

export function OnBoard({ board }: { board: { slug: string; title: string } | null }) {
  if (!board) return <span>{tell('boards.all')}</span>;
  return <a href={address('boards', board.slug)}><bdi>{board.title}</bdi></a>;
}

/** Names and values; those without a value are left out. */
export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) {
  const is = (value: ComponentChildren) => value !== null && value !== undefined && value !== '' && value !== false;
  return (
    <dl class="facts">
      {of.filter(([, value]) => is(value)).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === 'string' ? <bdi>{value}</bdi> : value}</dd>
        </div>
      ))}
    </dl>
  );
}
