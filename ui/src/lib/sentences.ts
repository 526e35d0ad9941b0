// Generated from the words of commands and reports: GODWIT_BLESS=1 cargo test --workspace --locked --test pages

/** How evenly nodes shared a divided job. */
export const EVENNESS_OF_NODES = '{first} was done first and {last} last, {late} s later. The node that moved least moved {nodes} % as much as the node that moved most.';

/** How evenly the interfaces of a node shared its work; it follows the words about nodes. */
export const EVENNESS_OF_INTERFACES = 'The interface of a node that sent least sent at least {interfaces} % as much as the one that sent most.';

/** The figure of a host whose energy counters the node may not read. */
export const ENERGY_UNREAD_FIGURE = 'package_counters_unread';

/** Why a host reports no energy, and the remedy. */
export const ENERGY_UNREAD = 'no energy of {host}, because the node there may not read the counters; allow that as root, at each boot: {remedy}';

/** The command that lets a node read the energy counters of its machine. */
export const ENERGY_REMEDY = 'chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj';
