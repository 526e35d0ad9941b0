// Owns the roles as choices of a form.
import type { Role } from './api';

export const ROLES: { value: Role; label: string }[] = [
  { value: 'viewer', label: 'Viewer: sees jobs and figures, and names that a rule lets the user list' },
  { value: 'operator', label: 'Operator: also submits and steers own jobs' },
  { value: 'admin', label: 'Admin: everything' },
];
