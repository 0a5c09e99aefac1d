// A member: its picture, or its initials, and its name.

import { useState } from 'preact/hooks';
import type { WhoFragment } from '../generated';
import { say } from '../language';
import { memberAddress } from '../routes';
import { mayLoad } from '../settings';

/** A hue that a text always has. */
function hue(text: string): number {
  let hash = 0;
  for (const letter of text) hash = (hash * 31 + letter.codePointAt(0)!) % 360;
  return hash;
}

function initials(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const letters = (words.length > 1 ? [words[0]!, words.at(-1)!] : words).map(word => [...word][0]!);
  return (letters.join('') || '?').toUpperCase();
}

/** A picture that has no words: the name is beside it. */
export function Picture({ address, name, of }: { address: string | null | undefined; name: string; of: string }) {
  const [failed, setFailed] = useState(false);
  if (mayLoad(address) && !failed) {
    return <img class="picture" src={address} alt="" loading="lazy" referrerpolicy="no-referrer" onError={() => setFailed(true)} />;
  }
  return (
    <span class="picture" aria-hidden="true" style={{ '--hue': String(hue(of)) }}>
      {initials(name)}
    </span>
  );
}

/** The name of a member as a link; two names that look alike differ by their keys. */
export function Person({ member, target }: { member: WhoFragment | null; target?: string }) {
  if (!member) {
    return (
      <span class="person">
        <span class="picture" aria-hidden="true">·</span>
        <em>{say('anonymous')}</em>
      </span>
    );
  }
  const { key, name, avatarUrl } = member;
  return (
    <a class="person" href={memberAddress(key)} {...(target && { target, rel: 'noopener' })}>
      <Picture address={avatarUrl} name={name} of={key} />
      <span class="names">
        <bdi class="name">{name}</bdi>
        {name !== key && <bdi class="key">{key}</bdi>}
      </span>
    </a>
  );
}
