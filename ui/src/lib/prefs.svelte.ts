// Owns what the reader prefers: units, time zone, colour scheme, keys. Kept in this browser only.

export interface Prefs {
  /** Sizes by powers of 1000 or of 1024. */
  sizes: 'decimal' | 'binary';
  /** Rates in bytes or in bits a second. */
  rates: 'bytes' | 'bits';
  zone: 'local' | 'UTC';
  theme: 'system' | 'light' | 'dark';
  /** Single keys act, as `n` for a new job. */
  keys: 'on' | 'off';
}

const STORED = 'godwit.prefs';
const USUAL: Prefs = { sizes: 'decimal', rates: 'bytes', zone: 'local', theme: 'system', keys: 'on' };

function load(): Prefs {
  try {
    return { ...USUAL, ...(JSON.parse(localStorage.getItem(STORED) ?? '{}') as Partial<Prefs>) };
  } catch {
    return { ...USUAL };
  }
}

export const prefs: Prefs = $state(load());

export function setPref<K extends keyof Prefs>(name: K, value: Prefs[K]): void {
  prefs[name] = value;
  try {
    localStorage.setItem(STORED, JSON.stringify(prefs));
  } catch {
    // A browser that stores nothing forgets the choice when the page is closed.
  }
  applyTheme();
}

export function applyTheme(): void {
  const root = document.documentElement;
  if (prefs.theme === 'system') delete root.dataset['theme'];
  else root.dataset['theme'] = prefs.theme;
}

/** Reads a value that a view keeps in this browser, such as its saved filters. */
export function recall<T>(name: string, usual: T): T {
  try {
    return (JSON.parse(localStorage.getItem(`godwit.${name}`) ?? 'null') as T | null) ?? usual;
  } catch {
    return usual;
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(`godwit.${name}`, JSON.stringify(value));
  } catch {
    // As above.
  }
}
