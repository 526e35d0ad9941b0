// Owns the keys that act anywhere on the page. A field that is being typed into keeps its keys.
import { prefs } from './prefs.svelte';
import { go } from './router.svelte';

export const KEYS: { keys: string; does: string }[] = [
  { keys: 'g o', does: 'Overview' },
  { keys: 'g j', does: 'Jobs' },
  { keys: 'g s', does: 'Sites' },
  { keys: 'n', does: 'New job' },
  { keys: '/', does: 'Filter the list' },
  { keys: 'j k', does: 'Next and previous row' },
  { keys: 'Enter', does: 'Open the row' },
  { keys: '?', does: 'This list' },
];

const PLACES: Record<string, string> = { o: '/', j: '/jobs', s: '/sites' };

/** How long `g` waits for the second key. */
const SECOND_KEY_MS = 1_500;

let leader = 0;

export function startKeys(help: () => void): void {
  window.addEventListener('keydown', (event) => {
    if (prefs.keys === 'off' || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    if (target.closest('input, textarea, select, dialog, [contenteditable]')) return;
    if (act(event.key, help)) event.preventDefault();
  });
}

function act(key: string, help: () => void): boolean {
  const led = performance.now() - leader < SECOND_KEY_MS;
  leader = 0;
  const place = PLACES[key];
  if (led && place) {
    go(place);
    return true;
  }
  switch (key) {
    case 'g':
      leader = performance.now();
      return true;
    case 'n':
      go('/new');
      return true;
    case '?':
      help();
      return true;
    case '/':
      return focus(document.querySelector<HTMLElement>('[data-filter]'));
    case 'j':
      return step(1);
    case 'k':
      return step(-1);
    default:
      return false;
  }
}

/** Moves the focus between the links of the rows. */
function step(by: number): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  if (rows.length === 0) return false;
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  return focus(rows[next] ?? null);
}

function focus(element: HTMLElement | null): boolean {
  element?.focus();
  return element !== null;
}
