// Owns who is signed in, and what that person may do. The cookie itself is out of the page's reach.
import { call, type Role, type Schemas, whenSignedOut } from './api';

type Session = Schemas['SessionView'];

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

class SessionState {
  /** None until the node has answered. */
  view = $state.raw<Session | null>(null);
  /** The session ended while the page was open. */
  ended = $state(false);

  get user(): string | null {
    return this.view?.user ?? null;
  }

  get role(): Role | null {
    return this.view?.role ?? null;
  }

  /** Whether the reader may do what needs this role. */
  may(least: Role): boolean {
    const role = this.role;
    return role !== null && RANK[role] >= RANK[least];
  }

  /** Whether the reader may steer what belongs to `owner`. */
  owns(owner: string): boolean {
    return this.may('admin') || (this.may('operator') && this.user === owner);
  }

  async load(): Promise<void> {
    this.view = await call('get', '/api/v1/session');
  }

  async signIn(body: Schemas['NewSession']): Promise<void> {
    this.view = await call('post', '/api/v1/session', { body });
    this.ended = false;
  }

  async signOut(): Promise<void> {
    await call('delete', '/api/v1/session');
    this.view = await call('get', '/api/v1/session');
  }
}

export const session = new SessionState();

whenSignedOut(() => {
  if (!session.user || session.ended) return;
  session.ended = true;
  void session.load().catch(() => {
    // The node is away; the next call says so.
  });
});
