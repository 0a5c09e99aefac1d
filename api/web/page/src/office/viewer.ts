// The viewer: the scopes of the access token.

import { signal } from '@preact/signals';
import type { ViewerQuery } from './generated';

type Scopes = NonNullable<ViewerQuery['viewer']>['scopes'];
export type Scope = Scopes[number];

export const scopes = signal<Scopes>([]);

/** True if the token has a scope. */
export function may(scope: Scope): boolean {
  return scopes.value.includes(scope);
}
