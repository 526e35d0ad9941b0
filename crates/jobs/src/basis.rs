//! Groups the words of this crate: the description of a job, errors, times, and documents of the API.
//! Knows no running job, and asks no node.

pub(crate) mod apart;
pub(crate) mod buffered;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod documents;
pub(crate) mod ends;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod examples;
pub(crate) mod owners;
pub(crate) mod pages;
pub(crate) mod relay;
pub(crate) mod removal;
pub(crate) mod sealing;
pub(crate) mod spec;
pub(crate) mod stored;
pub(crate) mod this_node;
pub(crate) mod turns;
pub(crate) mod whole;
pub(crate) mod words;
pub(crate) mod zone;
