// Owns how a text of the node is made safe to show: what would turn its direction, or not be seen at all, is escaped visibly.
// The build puts every text of every view through `safe` (scripts/safe-texts.js), so no view calls it. Values that are sent keep their signs.

/** The first and the last of each range, as in `crates/api/src/shown.rs`; control characters come beside. */
const UNSEEN: [number, number][] = [
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0x3164, 0x3164],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xfffb],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0000, 0xe0fff],
  [0x13430, 0x1343f],
];

const sign = (code: number) => `\\u{${code.toString(16)}}`;
const ranges = UNSEEN.map(([first, last]) => `${sign(first)}-${sign(last)}`).join('');
const ANY = new RegExp(`[\\u{0}-\\u{1f}\\u{7f}-\\u{9f}${ranges}]`, 'gu');
const SHORT: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escape = (text: string, stays: string) =>
  text.replace(ANY, (one) => (stays.includes(one) ? one : (SHORT[one] ?? sign(one.codePointAt(0)!))));

/** A text for people. Other values stay as they are. */
export const safe = <T>(value: T): T => (typeof value === 'string' ? (escape(value, '') as T) : value);

/** The same where lines and their indentation are shown as such. */
export const safeLines = <T>(value: T): T => (typeof value === 'string' ? (escape(value, '\n\t') as T) : value);
