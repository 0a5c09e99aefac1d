// The title of the page in the browser.

import { useEffect } from 'preact/hooks';

export function useTitle(title: string) {
  useEffect(() => {
    document.title = title ? `${title} – Laurel` : 'Laurel';
  }, [title]);
}
