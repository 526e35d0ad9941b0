// Owns which view the address names, and links between views without a reload of the page.

interface Route {
  path: string;
  query: URLSearchParams;
}

function read(): Route {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

let current = $state.raw<Route>(read());

export const route = {
  get path(): string {
    return current.path;
  },
  get query(): URLSearchParams {
    return current.query;
  },
};

export function go(to: string, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') {
    history.pushState(null, '', to);
    window.scrollTo(0, 0);
  } else {
    history.replaceState(null, '', to);
  }
  current = read();
}

/** Changes one parameter of the address and leaves the view where it is. */
export function setQuery(changes: Record<string, string | null>): void {
  const query = new URLSearchParams(current.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(text ? `${current.path}?${text}` : current.path, 'replace');
}

/** Paths that the node serves itself. */
const OUTSIDE = /^\/(api|docs|openapi\.json|metrics|healthz|readyz)(\/|$)/;

export function startRouter(): void {
  window.addEventListener('popstate', () => {
    current = read();
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest('a');
    if (!link || link.target || link.hasAttribute('download')) return;
    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || OUTSIDE.test(url.pathname)) return;
    if (url.hash && url.pathname === location.pathname) return;
    event.preventDefault();
    go(url.pathname + url.search);
  });
}
