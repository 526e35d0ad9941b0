// Owns the ticking time that relative times follow: one timer for the page, none while the page is hidden.
import { nodeNow } from './api';

let current = $state(nodeNow());

export const time = {
  /** The node's time, at most a second old. */
  get now(): number {
    return current;
  },
};

setInterval(() => {
  if (!document.hidden) current = nodeNow();
}, 1_000);
