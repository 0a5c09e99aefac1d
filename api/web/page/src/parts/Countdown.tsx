// The time until the next period begins, by the server's clock.

import { useEffect, useState } from 'preact/hooks';
import { now } from '../ask';
import { leftText } from '../figures';
import { say, time } from '../language';

/** The pause before the server is asked for the next period, in milliseconds. */
const GRACE_MS = 700;

export function Countdown({ text, at, zone, over }: { text: 'ends' | 'resets'; at: string; zone: string; over: () => void }) {
  const [left, setLeft] = useState(() => Date.parse(at) - now());
  useEffect(() => {
    let isOver = false;
    const tick = () => {
      const left = Date.parse(at) - now();
      setLeft(left);
      if (left < -GRACE_MS && !isOver) {
        isOver = true;
        over();
      }
    };
    tick();
    const timer = window.setInterval(tick, 1_000);
    return () => window.clearInterval(timer);
  }, [at]);
  const local = time(at, { dateStyle: 'medium', timeStyle: 'short' }, zone);
  return (
    <p class="countdown">
      <span role="timer">{say(text, { left: leftText(left) })}</span>{' '}
      <span class="note">{say('resets.at', { time: local, zone })}</span>
    </p>
  );
}
