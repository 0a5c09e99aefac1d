// Scores, spans of time and the names of windows and periods, for people.

import type { BoardQuery, FormatFragment, SpanFragment } from './generated';
import { type Key, language, locale, number, say, time } from './language';

/** What a score needs to be written. */
export interface Scored {
  decimals: number;
  scoreFormat: FormatFragment;
}

export type Board = NonNullable<BoardQuery['board']>;

/** A decimal as a whole number of its last places. */
function raw(decimal: string, places: number): bigint {
  const [whole = '0', fraction = ''] = decimal.replace('-', '').split('.');
  const value = BigInt(whole + fraction.padEnd(places, '0').slice(0, places));
  return decimal.startsWith('-') ? -value : value;
}

/** The distance of two scores, exactly. */
export function distance(one: string, other: string): string {
  const places = Math.max(...[one, other].map(score => score.split('.')[1]?.length ?? 0));
  const difference = raw(one, places) - raw(other, places);
  const digits = String(difference < 0n ? -difference : difference).padStart(places + 1, '0');
  return places ? `${digits.slice(0, -places)}.${digits.slice(-places)}` : digits;
}

function clock(seconds: string): string {
  const [whole = '0', fraction] = seconds.replace('-', '').split('.');
  const all = BigInt(whole);
  const [hours, minutes, rest] = [all / 3600n, (all / 60n) % 60n, all % 60n];
  const two = (part: bigint) => String(part).padStart(2, '0');
  const text = hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  return `${seconds.startsWith('-') ? '-' : ''}${text}${fraction ? `.${fraction}` : ''}`;
}

/** A score, as its board shows it; the digits of plain ones in groups, as the language has them. */
export function scoreText(score: string, { scoreFormat, decimals }: Scored): string {
  const { style, currency, suffix } = scoreFormat;
  if (style === 'SECONDS') return clock(score);
  if (style === 'MILLISECONDS') return clock(thousandth(score));
  // Scores that decay have six decimals more.
  const places = Math.min(score.split('.')[1]?.length ?? 0, decimals + 2);
  const written = new Intl.NumberFormat(locale(), {
    minimumFractionDigits: Math.min(places, decimals),
    maximumFractionDigits: places,
  }).format(score as Intl.StringNumericLiteral);
  const unit = currency ?? suffix;
  return unit ? `${written} ${unit}` : written;
}

function thousandth(milliseconds: string): string {
  const sign = milliseconds.startsWith('-') ? '-' : '';
  const [whole = '0', fraction = ''] = milliseconds.replace('-', '').split('.');
  const digits = whole.padStart(4, '0');
  return `${sign}${digits.slice(0, -3)}.${digits.slice(-3)}${fraction}`;
}

const NAMED = ['all', 'hourly', 'daily', 'weekly', 'monthly', 'quarterly', 'yearly', 'season'];
const UNITS: Record<string, string> = { h: 'hours', d: 'days', w: 'weeks', mo: 'months' };

/** The name of a window: "Today", "7 days". */
export function windowText(name: string): string {
  if (NAMED.includes(name)) return say(`window.${name}` as Key);
  const [, decays, count, unit] = name.match(/^(decay:)?(\d+)(h|d|w|mo)$/) ?? [];
  if (!unit) return name;
  const span = say(`window.${UNITS[unit]}` as Key, { count: Number(count) });
  return decays ? say('window.decay', { span }) : span;
}

/** The name of a segment: its value, where the board has segments by one attribute. */
export function segmentText(segment: string, { segmentBy }: Board): string {
  return segmentBy.length === 1 ? segment.slice(segment.indexOf(':') + 1) : segment;
}

/** The name of a period, by its first day and its last one in the board's zone. */
export function periodText({ label, start, end }: Pick<SpanFragment, 'label' | 'start' | 'end'>, window: string, zone: string): string {
  if (!start || !end || window === 'season') return label;
  const day: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short', year: 'numeric' };
  switch (window) {
    case 'hourly':
      return time(start, { ...day, hour: 'numeric', minute: '2-digit' }, zone);
    case 'daily':
      return time(start, { ...day, weekday: 'short' }, zone);
    case 'monthly':
      return time(start, { month: 'long', year: 'numeric' }, zone);
    case 'quarterly':
    case 'yearly':
      return label;
    default: {
      const format = new Intl.DateTimeFormat(locale(), { ...day, timeZone: zone });
      return format.formatRange(new Date(start), new Date(Date.parse(end) - 1));
    }
  }
}

/** The time that is left: "2 days 3 hr", or "3:04:05" within the last day. */
export function leftText(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  if (seconds < 86_400) return clock(String(seconds));
  const part = (value: number, unit: string) => number(value, { style: 'unit', unit, unitDisplay: 'long' });
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor((seconds % 86_400) / 3600);
  const parts = hours ? [part(days, 'day'), part(hours, 'hour')] : [part(days, 'day')];
  return new Intl.ListFormat(language.value.tag, { type: 'unit' }).format(parts);
}
