// Owns the changes of a cluster: invites, drains and removes nodes. Asks before what moves jobs or cannot be undone, and says what happened.
import { call, type Schemas, trouble } from './api';
import { dialogs, type Question } from './dialogs.svelte';
import type { ClusterNode } from './work';

export type NodeAction = 'drain' | 'undrain' | 'remove';

export const NODE_WORDS: Record<NodeAction, string> = { drain: 'Drain…', undrain: 'Undrain', remove: 'Remove…' };

/** The actions that a node allows now. A node that is alive and not drained cannot be removed. */
export function nodeActions(node: ClusterNode, nodes: number): NodeAction[] {
  const leave: NodeAction[] = nodes > 1 ? ['remove'] : [];
  switch (node.state) {
    case 'up':
      return ['drain'];
    case 'draining':
      return ['undrain'];
    case 'drained':
      return ['undrain', ...leave];
    case 'lost':
      return leave;
    default:
      return [];
  }
}

function question(action: 'drain' | 'remove', node: ClusterNode, nodes: number): Question {
  const { name } = node;
  if (action === 'drain') {
    const others = nodes > 1 ? 'Its running jobs stop there and resume at other nodes that have their exports' : 'Its running jobs stop and wait, for there is no other node';
    return {
      title: `Drain ${name}?`,
      text: `${name} takes no new jobs. ${others}. It still votes, and serves its exports. Undrain reverses this.`,
      action: 'Drain the node',
    };
  }
  const how = node.state === 'lost' ? `${name} is lost: if it still runs, it is shut out. Its jobs resume at other nodes.` : `${name} is drained. Other nodes take over its open items of divided jobs.`;
  const votes = node.votes ? ' Its vote ends, too.' : '';
  return {
    title: `Remove ${name} from the cluster?`,
    text: `${how}${votes} Its data and its home stay on its machine. To come back, it needs a new invitation.`,
    action: `Remove ${name}`,
    danger: true,
  };
}

/** Makes the change after its question. False if nothing was sent. */
export async function change(action: NodeAction, node: ClusterNode, nodes: number): Promise<boolean> {
  if (action !== 'undrain' && !(await dialogs.ask(question(action, node, nodes)))) return false;
  const path = { name: node.name };
  try {
    if (action === 'remove') {
      await call('delete', '/api/v1/cluster/nodes/{name}', { path });
      dialogs.say(`${node.name} is removed.`);
    } else {
      await call('patch', '/api/v1/cluster/nodes/{name}', { path, body: { draining: action === 'drain' } });
      dialogs.say(action === 'drain' ? `${node.name} takes no new jobs.` : `${node.name} takes jobs again.`);
    }
  } catch (error) {
    dialogs.say(trouble(error), 'bad');
  }
  return true;
}

const LIFETIMES = [
  { value: '3600', label: '1 hour' },
  { value: '86400', label: '1 day' },
  { value: '604800', label: '7 days' },
];

/** Asks for how long, and gives the invitation to `made`. */
export function invite(made: (invitation: Schemas['InviteView']) => void): void {
  dialogs.open({
    title: 'Invite a node',
    text: 'One new node joins with the invitation. It then shares the state of this cluster, with its users, sites and jobs.',
    action: 'Make the invitation',
    fields: [{ name: 'seconds', label: 'Good for', kind: 'select', options: LIFETIMES, value: '3600' }],
    send: async (values) => made(await call('post', '/api/v1/cluster/invites', { body: { seconds: Number(values['seconds']) } })),
  });
}
