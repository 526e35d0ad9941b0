// Owns how figures and times are written. Follows the reader's preferences, and calls no API.
import { prefs } from './prefs.svelte';

const MISSING = '–';

function scaled(value: number, step: number, units: string[]): string {
  let index = 0;
  while (Math.abs(value) >= step * 0.9995 && index < units.length - 1) {
    value /= step;
    index += 1;
  }
  const digits = index === 0 ? 0 : Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[index]}`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING;
  return prefs.sizes === 'binary'
    ? scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'])
    : scaled(value, 1000, ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB']);
}

/** A rate that is given in bytes per second. */
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING;
  if (prefs.rates === 'bits') {
    return scaled(value * 8, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']);
  }
  return `${bytes(value)}/s`;
}

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING;
  return value.toLocaleString('en-US').replaceAll(',', ' ');
}

export function percent(share: number | null | undefined, digits = 0): string {
  if (share === null || share === undefined || Number.isNaN(share)) return MISSING;
  return `${(share * 100).toFixed(digits)} %`;
}

/** A time span, with its two largest units. */
export function span(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    const rest = minutes < 10 ? seconds % 60 : 0;
    return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  }
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 10 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** How long ago, or in how long. */
export function relative(at: string, now: number): string {
  const away = Date.parse(at) - now;
  if (Number.isNaN(away)) return MISSING;
  if (Math.abs(away) < 1000) return 'now';
  return away < 0 ? `${span(-away)} ago` : `in ${span(away)}`;
}

const FORM: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
};

/** Making one takes longer than using it a hundred times. */
const FORMATS = {
  local: new Intl.DateTimeFormat('sv-SE', FORM),
  UTC: new Intl.DateTimeFormat('sv-SE', { ...FORM, timeZone: 'UTC' }),
};

/** A moment as `2026-11-24 22:00:05`, in the reader's zone. */
export function moment(at: string | number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return MISSING;
  const text = FORMATS[prefs.zone].format(date);
  return prefs.zone === 'UTC' ? `${text} UTC` : text;
}

/** The time of day, and the day before it if it is another day. */
export function clock(at: string | number, now: number): string {
  const text = moment(at);
  return text.slice(0, 10) === moment(now).slice(0, 10) ? text.slice(11) : text;
}

/** The name of the reader's zone. */
export function zoneName(): string {
  return prefs.zone === 'UTC' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

const TYPED_UNITS = ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'];

/** A rate as it is typed: `300 MB/s`. One that has more digits is written in bytes, so that saving it changes nothing. */
export function typedRate(value: number | null | undefined): string {
  if (value === null || value === undefined) return '';
  const index = Math.min(Math.floor(Math.log10(Math.max(value, 1)) / 3), TYPED_UNITS.length - 1);
  const number = value / 1000 ** index;
  return Number.isInteger(number * 1000) ? `${number} ${TYPED_UNITS[index]}` : `${value} B/s`;
}

/** A moment as a field of the browser takes it, in its zone. */
export function typedTime(at: string | null | undefined): string {
  if (!at) return '';
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
