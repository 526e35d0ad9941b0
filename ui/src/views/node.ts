// Owns the part of the page that loads when it is first needed: the form of a new job and the views of the node.
export { default as Account } from './Account.svelte';
export { default as Access } from './Access.svelte';
export { default as Audit } from './Audit.svelte';
export { default as Cluster } from './Cluster.svelte';
export { default as Exports } from './Exports.svelte';
export { default as Flows } from './Flows.svelte';
export { default as Limits } from './Limits.svelte';
export { default as NewJob } from './NewJob.svelte';
export { default as Schedules } from './Schedules.svelte';
export { default as Settings } from './Settings.svelte';
export { default as Sites } from './Sites.svelte';
export { default as Tokens } from './Tokens.svelte';
export { default as Users } from './Users.svelte';
export { default as Webhooks } from './Webhooks.svelte';
