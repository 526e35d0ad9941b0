// Owns the codes of failures that the page treats apart. A test of the catalogue (crates/model) checks each of them.

export const CODES = {
  /** The stream of events does not know the last event. */
  badHeader: 'bad_header',
  /** Nothing reaches the other end now. */
  connectionLost: 'connection_lost',
  /** Calls of a node that does not answer may come yet. */
  lateCalls: 'late_calls',
  /** The node is older than the page. */
  noSuchRoute: 'no_such_route',
  /** Data came from another destination of the job. */
  relayed: 'relayed',
} as const;
