// The addresses of the page. What it shows is in its address, so that it can be shared and kept.

import { signal } from '@preact/signals';

/** A board, and which of its standings. */
export interface Chosen {
  slug: string;
  window: string;
  period: string | undefined;
  segment: string | undefined;
  /** The member whose place is shown, if it is not the reader's own. */
  member: string | undefined;
  /** The number of entries before the first one that is shown. */
  offset: number;
}

export type Route =
  | { page: 'boards'; query: string }
  | { page: 'board' | 'embed'; chosen: Chosen; first: number }
  | { page: 'member'; key: string }
  | { page: 'find'; prefix: string }
  | { page: 'missing' };

/** The entries of a page of a list, and of an embedded list. */
export const PAGE = 50;
const EMBEDDED = 10;
const EMBEDDED_MAX = 100;

function read({ pathname, search }: { pathname: string; search: string }): Route {
  const query = new URLSearchParams(search);
  const [kind = '', name = '', ...rest] = pathname.split('/').slice(1).map(part => decodeURIComponent(part));
  if (rest.length) return { page: 'missing' };
  if (kind === '' && !name) return { page: 'boards', query: query.get('query') ?? '' };
  if (kind === 'members' && name) return { page: 'member', key: name };
  if (kind === 'members') return { page: 'find', prefix: query.get('find') ?? '' };
  if ((kind !== 'boards' && kind !== 'embed') || !name) return { page: 'missing' };
  const chosen: Chosen = {
    slug: name,
    window: query.get('window') || 'all',
    period: query.get('period') || undefined,
    segment: query.get('segment') || undefined,
    member: query.get('member') || undefined,
    offset: Math.max(0, Math.floor(Number(query.get('offset')) || 0)),
  };
  const first = Math.min(EMBEDDED_MAX, Math.max(1, Math.floor(Number(query.get('first')) || EMBEDDED)));
  return { page: kind === 'embed' ? 'embed' : 'board', chosen, first };
}

function current(): Route {
  try {
    return read(location);
  } catch {
    // An address that is no UTF-8.
    return { page: 'missing' };
  }
}

export const route = signal<Route>(current());

/** Goes to an address of the page. */
export function go(address: string, { replace = false } = {}) {
  const from = location.pathname;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  route.value = current();
  if (location.pathname !== from) {
    window.scrollTo(0, 0);
    // A screen reader goes on at the heading of the new page.
    requestAnimationFrame(() => document.querySelector('h1')?.focus());
  }
}

window.addEventListener('popstate', () => (route.value = current()));

/** Follows the links to addresses of the page without loading it again. */
export function followLinks() {
  document.addEventListener('click', event => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.('a[href]');
    if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin) return;
    if (link.hasAttribute('download') || link.hash || read(link).page === 'missing') return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

export function memberAddress(key: string): string {
  return `/members/${encodeURIComponent(key)}`;
}

export function boardAddress({ slug, ...chosen }: Partial<Chosen> & { slug: string }, page = 'boards'): string {
  const query = new URLSearchParams();
  if (chosen.window && chosen.window !== 'all') query.set('window', chosen.window);
  if (chosen.period) query.set('period', chosen.period);
  if (chosen.segment) query.set('segment', chosen.segment);
  if (chosen.member) query.set('member', chosen.member);
  if (chosen.offset) query.set('offset', String(chosen.offset));
  const text = query.toString();
  return `/${page}/${encodeURIComponent(slug)}${text && `?${text}`}`;
}

/** The argument `of` for the standings that are chosen. */
export function standingsOf({ window, period, segment }: Chosen) {
  return { window, ...(period && { period }), ...(segment && { segment }) };
}
