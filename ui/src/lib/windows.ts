// Owns how times of the week are written as text, one line each: `mon-fri 08:00-18:00 50 MB/s`.
import type { Schemas } from './api';
import { typedRate } from './format';

type Window = Schemas['WindowView'];
type NewWindow = Schemas['NewWindow'];

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];

const clock = (minute: number) => `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;

function days(numbers: number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  if (sorted.length === 7) return 'daily';
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let end = i;
    while (sorted[end + 1] === sorted[end]! + 1) end += 1;
    const [from, to] = [DAYS[sorted[i]!], DAYS[sorted[end]!]];
    parts.push(end === i ? from! : end === i + 1 ? `${from},${to}` : `${from}-${to}`);
    i = end + 1;
  }
  return parts.join(',');
}

export function windowText(window: Window): string {
  return `${days(window.days)} ${clock(window.from)}-${clock(window.to)} ${typedRate(window.rate) || 'none'}`;
}

/** Reads one line; an error says which line is wrong and how to write it. The node reads the rate. */
export function parseWindow(line: string): NewWindow {
  const match = /^(\S+)\s+(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)\s+(.+)$/.exec(line.trim());
  const wrong = () => new Error(`"${line.trim()}" is no time window. Write it as: mon-fri 08:00-18:00 50 MB/s, or daily 22:00-06:00 none.`);
  if (!match) throw wrong();
  const [, names, fromHour, fromMinute, toHour, toMinute, limit] = match;
  return {
    days: parseDays(names!.toLowerCase(), wrong),
    from: Number(fromHour) * 60 + Number(fromMinute),
    to: Number(toHour) * 60 + Number(toMinute),
    rate: limit!.trim(),
  };
}

function parseDays(text: string, wrong: () => Error): number[] {
  if (text === 'daily') return [0, 1, 2, 3, 4, 5, 6];
  const found = new Set<number>();
  for (const part of text.split(',')) {
    const [from, to = from] = part.split('-').map((name) => DAYS.indexOf(name));
    if (from === undefined || to === undefined || from < 0 || to < 0 || to < from) throw wrong();
    for (let day = from; day <= to; day++) found.add(day);
  }
  return [...found].sort((a, b) => a - b);
}
