// The choice of a language.

import { LANGUAGES, language, say, speak } from '../language';

export function Languages() {
  return (
    <label>
      {say('language')}{' '}
      <select value={language.value.tag} onChange={event => void speak(event.currentTarget.value, true)}>
        {Object.entries(LANGUAGES).map(([tag, { name }]) => (
          <option key={tag} value={tag} lang={tag}>{name}</option>
        ))}
      </select>
    </label>
  );
}
