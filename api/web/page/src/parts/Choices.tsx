// The choice of standings: windows as links, past periods and segments as lists to choose from.

import { useEffect, useRef } from 'preact/hooks';
import { PeriodsDocument, SegmentsDocument } from '../generated';
import { ask, needed } from '../ask';
import { type Board, periodText, segmentText, windowText } from '../figures';
import { number, say } from '../language';
import { useLoad } from '../load';
import { boardAddress, go, type Chosen } from '../routes';

/** The windows that people know best come first. */
const ORDER = ['daily', 'weekly', 'monthly', '7d', 'season', 'all'];

export function Windows({ board, chosen }: { board: Board; chosen: Chosen }) {
  const place = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  const windows = board.windows.toSorted((one, other) => place(one.name) - place(other.name));
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    const chosen = bar.current?.querySelector('[aria-current]');
    chosen?.scrollIntoView({ inline: 'center', block: 'nearest' });
  }, [chosen.window]);
  if (windows.length < 2) return null;
  return (
    <nav class="windows" ref={bar} aria-label={say('windows')}>
      {windows.map(({ name }) => (
        <a
          key={name}
          href={boardAddress({ ...chosen, window: name, period: undefined, offset: 0 })}
          {...(name === chosen.window && { 'aria-current': 'page' })}
        >
          {windowText(name)}
        </a>
      ))}
    </nav>
  );
}

export function Periods({ board, chosen }: { board: Board; chosen: Chosen }) {
  const { slug, window, period } = chosen;
  const current = board.windows.find(({ name }) => name === window)?.current?.label;
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(PeriodsDocument, { slug, window }, signal);
    return needed(data.board?.periods?.nodes, problems);
  }, [slug, window, current]);
  const past = (loaded.stale ? [] : (loaded.value ?? [])).filter(({ label }) => label !== current);
  if (period && past.every(({ label }) => label !== period)) {
    past.unshift({ label: period, start: null, end: null, nextResetAt: null });
  }
  if (!past.length) return null;
  return (
    <label class="field">
      {say('period')}
      <select
        value={period ?? ''}
        onChange={event => go(boardAddress({ ...chosen, period: event.currentTarget.value || undefined, offset: 0 }))}
      >
        <option value="">{say('period.now')}</option>
        {past.map(period => (
          <option key={period.label} value={period.label}>{periodText(period, window, board.timeZone)}</option>
        ))}
      </select>
    </label>
  );
}

export function Segments({ board, chosen }: { board: Board; chosen: Chosen }) {
  const { slug, segment } = chosen;
  const isDivided = board.segmentBy.length > 0;
  const loaded = useLoad(async signal => {
    if (!isDivided) return [];
    const { data, problems } = await ask(SegmentsDocument, { slug }, signal);
    return needed(data.board?.segments?.nodes, problems);
  }, [slug, isDivided]);
  const names = (loaded.value ?? []).map(({ segment, size }) => ({ name: segment ?? '', size }));
  if (segment && names.every(({ name }) => name !== segment)) names.unshift({ name: segment, size: -1 });
  if (!names.length) return null;
  return (
    <label class="field">
      {say('segment')}
      <select
        value={segment ?? ''}
        onChange={event => go(boardAddress({ ...chosen, segment: event.currentTarget.value || undefined, offset: 0 }))}
      >
        <option value="">{say('segment.all')}</option>
        {names.map(({ name, size }) => (
          <option key={name} value={name}>{segmentText(name, board)}{size >= 0 && ` (${number(size)})`}</option>
        ))}
      </select>
    </label>
  );
}
