// The addresses of the office: /admin, /admin/SECTION and /admin/SECTION/NAME.

import { signal } from '@preact/signals';

/** The sections, and the scope that each needs. */
export const SECTIONS = {
  boards: 'MODERATE',
  waiting: 'MODERATE',
  members: 'MODERATE',
  tokens: 'ADMIN',
  jobs: 'ADMIN',
  checks: 'ADMIN',
  partitions: 'ADMIN',
  audit: 'ADMIN',
  erasures: 'ADMIN',
} as const;

export type Section = keyof typeof SECTIONS;

export interface Place {
  section: Section | 'missing';
  name: string;
  query: URLSearchParams;
}

function read({ pathname, search }: { pathname: string; search: string }): Place {
  const query = new URLSearchParams(search);
  const [, section = '', name = '', ...rest] = pathname.split('/').slice(1).map(part => decodeURIComponent(part));
  if (rest.length || (section && !Object.hasOwn(SECTIONS, section))) return { section: 'missing', name, query };
  return { section: (section || 'boards') as Section, name, query };
}

function current(): Place {
  try {
    return read(location);
  } catch {
    // An address that is no UTF-8.
    return { section: 'missing', name: '', query: new URLSearchParams() };
  }
}

export const place = signal(current());

/** Goes to an address of the office. */
export function go(address: string, { replace = false } = {}) {
  const from = location.pathname;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  place.value = current();
  if (location.pathname !== from) {
    window.scrollTo(0, 0);
    // A screen reader goes on at the heading of the new page.
    requestAnimationFrame(() => document.querySelector('h1')?.focus());
  }
}

window.addEventListener('popstate', () => (place.value = current()));

/** Follows the links to addresses of the office without loading it again; `before` is called for each. */
export function followLinks(before: () => void) {
  document.addEventListener('click', event => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.('a[href]');
    if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin || link.hash) return;
    if (!/^\/admin(\/|$)/.test(link.pathname)) return;
    event.preventDefault();
    before();
    go(link.pathname + link.search);
  });
}

export function address(section: Section, name = '', query: Record<string, string> = {}): string {
  const text = new URLSearchParams(query).toString();
  const path = section === 'boards' && !name ? '' : `/${section}${name && `/${encodeURIComponent(name)}`}`;
  return `/admin${path}${text && `?${text}`}`;
}
