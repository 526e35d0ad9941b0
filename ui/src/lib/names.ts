// Owns names of files as the node has them: bytes, which need not be UTF-8, and how they are shown, asked for and chosen.
// Asks nothing itself.

/** Text, or the bytes of a name that is not UTF-8. */
export type Name = string | { base64: string };

/** An entry that a job takes by its bytes, for no text names it. */
export interface Odd {
  /** The directory above it, as `SITE:/EXPORT/PATH`. */
  directory: string;
  name: Name;
}

export const isText = (name: Name): name is string => typeof name === 'string';

export function bytesOf(name: Name): Uint8Array {
  if (isText(name)) return new TextEncoder().encode(name);
  return Uint8Array.from(atob(name.base64), (sign) => sign.charCodeAt(0));
}

/** Bytes as JSON has them: text where they are text. */
export function fromBytes(bytes: Uint8Array): Name {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { base64: btoa(String.fromCharCode(...bytes)) };
  }
}

/** As people read it: bytes that are no text stand as `\xNN`. */
export function shown(name: Name): string {
  if (isText(name)) return name;
  const bytes = bytesOf(name);
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    // The longest first: a sign of UTF-8 has up to four bytes.
    const length = [4, 3, 2, 1].find((length) => at + length <= bytes.length && isSign(bytes.subarray(at, at + length)));
    text += length
      ? new TextDecoder().decode(bytes.subarray(at, at + length))
      : `\\x${bytes[at]!.toString(16).padStart(2, '0')}`;
    at += length ?? 1;
  }
  return text;
}

function isSign(bytes: Uint8Array): boolean {
  try {
    return [...new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)].length === 1;
  } catch {
    return false;
  }
}

/** As a part of an address. */
export function encoded(name: Name): string {
  if (isText(name)) return encodeURIComponent(name);
  return [...bytesOf(name)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}

export const same = (a: Name, b: Name) => encoded(a) === encoded(b);

/** A place in a site, as `SITE:/EXPORT/PATH`, whose parts may be any bytes. */
export function place(site: string, path: Name[], last = ''): Name {
  const parts = [`${site}:/`, ...path.flatMap((name, index) => (index > 0 ? ['/', name] : [name])), last];
  return fromBytes(Uint8Array.from(parts.flatMap((part) => [...bytesOf(part)])));
}

/** The rules of a job that select these entries of one directory, with their contents, and nothing else. */
export function rulesFor(names: Name[]): { include: boolean; pattern: Name }[] {
  const taken = names.flatMap((name) => [pattern(name, ''), pattern(name, '/**')]);
  return [...taken.map((pattern) => ({ include: true, pattern })), { include: false, pattern: '*' }];
}

/** A pattern that means these bytes at the top, and what stands behind them. */
function pattern(name: Name, behind: string): Name {
  const code = (sign: string) => sign.charCodeAt(0);
  const bytes = [...bytesOf(name)];
  // A backslash escapes only in a pattern that has one of the signs with a meaning.
  const escapes = behind.includes('*') || bytes.some((byte) => [...'*?['].map(code).includes(byte));
  const special = [...'*?[\\'].map(code);
  const escaped = bytes.flatMap((byte) => (escapes && special.includes(byte) ? [code('\\'), byte] : [byte]));
  return fromBytes(Uint8Array.from([...bytesOf('/'), ...escaped, ...bytesOf(behind)]));
}
