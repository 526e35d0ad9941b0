//! Tests by the real binary. Each module owns one kind of trouble or use.
//! Holds nothing itself.

mod godwit {
    pub(crate) mod bits;
    pub(crate) mod case;
    pub(crate) mod changes;
    pub(crate) mod channels;
    pub(crate) mod choices;
    pub(crate) mod coming_from;
    pub(crate) mod contract;
    pub(crate) mod cuts;
    pub(crate) mod data;
    pub(crate) mod delete;
    pub(crate) mod distance;
    pub(crate) mod doctor;
    pub(crate) mod entries;
    pub(crate) mod filters;
    pub(crate) mod full;
    pub(crate) mod generate;
    pub(crate) mod how_fast;
    pub(crate) mod judge;
    pub(crate) mod kill;
    pub(crate) mod lists;
    pub(crate) mod machine;
    pub(crate) mod manifest;
    pub(crate) mod metadata;
    #[path = "../support/netns.rs"]
    pub(crate) mod netns;
    pub(crate) mod owners;
    pub(crate) mod places;
    pub(crate) mod power;
    pub(crate) mod process;
    pub(crate) mod reports;
    pub(crate) mod resume;
    pub(crate) mod rig;
    pub(crate) mod sharing;
    pub(crate) mod spared;
    pub(crate) mod ssh;
    pub(crate) mod stdio;
    pub(crate) mod strangers;
    pub(crate) mod sync;
    pub(crate) mod trees;
    pub(crate) mod tuning;
    pub(crate) mod unkept;
    pub(crate) mod unusable;
    pub(crate) mod verify;
}
