// Owns what the catalogue of failures says of a code: who must act, whether a retry can help, and what to do. Asks nothing.
import { FAILURES } from './failures';

/** The party that must act before a retry can work, for people. */
const FAULTS: Record<string, string> = {
  source: 'the source',
  destination: 'the destination',
  network: 'the network between the two sides',
  peer: 'the other side',
  user: 'the job as it was submitted, or its rights',
  this_machine: 'the node that runs the job',
  bug: 'a fault of Godwit itself',
  named_side: 'the side that the message names',
};

export interface Advice {
  advice: string;
  fault: string;
  retry: string;
}

/** The row of a code; null for a code of another version. */
export function adviceOf(code: string): Advice | null {
  const row = Object.hasOwn(FAILURES, code) ? FAILURES[code] : undefined;
  if (!row) return null;
  const [fault, retry, advice] = row;
  return {
    advice,
    fault: FAULTS[fault] ?? fault,
    retry: retry === 'transient' ? 'A retry may help without any change.' : 'A retry helps only after a change.',
  };
}
