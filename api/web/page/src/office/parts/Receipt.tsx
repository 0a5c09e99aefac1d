// The receipt of an erasure, which does not name the member.

import { signal } from '@preact/signals';
import type { ReceiptFragment } from '../generated';
import { named, tell } from '../words';
import { Facts, When } from './Facts';

/** The receipt of the last erasure by this viewer. */
export const handed = signal<ReceiptFragment | undefined>(undefined);

/** The numbers of rows by table, as a text. */
function rows(counts: string): string {
  try {
    return Object.entries(JSON.parse(counts) as Record<string, number>).map(([table, count]) => `${table} ${count}`).join(', ');
  } catch {
    return counts;
  }
}

export function Receipt({ of: { id, mode, step, startedAt, erasedAt, salt, hash, counts } }: { of: ReceiptFragment }) {
  return (
    <Facts
      of={[
        [tell('receipt'), id],
        [tell('erase.mode'), named('mode', mode)],
        [tell('receipt.step'), named('step', step)],
        [tell('receipt.started'), <When key="at" at={startedAt} />],
        [tell('receipt.erased'), erasedAt && <When key="erased" at={erasedAt} />],
        [tell('receipt.salt'), <code key="salt">{salt}</code>],
        [tell('receipt.hash'), <code key="hash">{hash}</code>],
        [tell('receipt.rows'), rows(counts)],
      ]}
    />
  );
}
