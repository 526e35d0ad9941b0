// Owns the list of views: their addresses, their names, who may see them, and how each is loaded.
import type { Component } from 'svelte';
import Job from '../views/Job.svelte';
import Jobs from '../views/Jobs.svelte';
import Missing from '../views/Missing.svelte';
import Overview from '../views/Overview.svelte';
import type { Role } from './api';

type Loaded = Component<{ id?: string }>;
type View = () => Loaded | Promise<Loaded>;
const view = (component: unknown): View => () => component as Loaded;
/** Views of the node's configuration come in one part of their own: most readers never open them. */
const later =
  (name: keyof typeof import('../views/node')): View =>
  async () =>
    (await import('../views/node'))[name] as Loaded;

interface Place {
  name: string;
  id?: string;
  load: View;
}

export interface Link {
  name: string;
  href: string;
  label: string;
  /** The least role that the node answers. */
  role: Role;
}

export const MAIN: Link[] = [
  { name: 'overview', href: '/', label: 'Overview', role: 'viewer' },
  { name: 'jobs', href: '/jobs', label: 'Jobs', role: 'viewer' },
  { name: 'new', href: '/new', label: 'New job', role: 'operator' },
];

export const MORE: Link[] = [
  { name: 'cluster', href: '/cluster', label: 'Cluster', role: 'viewer' },
  { name: 'sites', href: '/sites', label: 'Sites', role: 'viewer' },
  { name: 'exports', href: '/exports', label: 'Exports', role: 'viewer' },
  { name: 'limits', href: '/limits', label: 'Limits and shares', role: 'viewer' },
  { name: 'schedules', href: '/schedules', label: 'Schedules', role: 'viewer' },
  { name: 'flows', href: '/flows', label: 'Flows', role: 'viewer' },
  { name: 'access', href: '/access', label: 'Access', role: 'admin' },
  { name: 'users', href: '/users', label: 'Users', role: 'admin' },
  { name: 'tokens', href: '/tokens', label: 'Tokens', role: 'operator' },
  { name: 'webhooks', href: '/webhooks', label: 'Webhooks', role: 'admin' },
  { name: 'audit', href: '/audit', label: 'Audit log', role: 'admin' },
  { name: 'settings', href: '/settings', label: 'Settings', role: 'viewer' },
  { name: 'account', href: '/account', label: 'Your account', role: 'viewer' },
];

export const TITLES: Record<string, string> = {
  ...Object.fromEntries([...MAIN, ...MORE].map((link) => [link.name, link.label])),
  job: 'Job',
  missing: 'Not found',
};

const VIEWS: Record<string, View> = {
  overview: view(Overview),
  jobs: view(Jobs),
  job: view(Job),
  new: later('NewJob'),
  sites: later('Sites'),
  cluster: later('Cluster'),
  exports: later('Exports'),
  limits: later('Limits'),
  schedules: later('Schedules'),
  flows: later('Flows'),
  access: later('Access'),
  users: later('Users'),
  tokens: later('Tokens'),
  webhooks: later('Webhooks'),
  audit: later('Audit'),
  settings: later('Settings'),
  account: later('Account'),
  missing: view(Missing),
};

/** The view that an address names. */
export function find(path: string): Place {
  const job = /^\/jobs\/([^/]+)\/?$/.exec(path);
  if (job) return { name: 'job', id: decode(job[1]!), load: VIEWS['job']! };
  const link = [...MAIN, ...MORE].find((one) => one.href === path || one.href === path.replace(/\/$/, ''));
  const name = link?.name ?? 'missing';
  return { name, load: VIEWS[name]! };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
