//! Owns the transfer buffer: extents on flash between slow storage and the network. Moves no data between nodes, and reads no settings.
//!
//! Two halves know nothing of each other. The [ledger](ledger::Ledger) is pure: it decides where an extent lies, which one may
//! be evicted, and which reader waits. A [volume](volume::Volume) is a device or a directory with a log; it keeps contents and
//! states through power cuts. The
//! [service](service::Buffer) carries [actions](ledger::Action) from the ledger to the volumes, and results back.

pub mod backing;
pub mod device;
pub mod directory;
pub mod extent;
pub mod foreign;
pub mod frame;
pub mod health;
pub mod in_use;
pub mod inspect;
pub mod layout;
pub mod ledger;
pub mod make;
pub mod pool;
pub mod replay;
pub mod service;
pub mod superblock;
mod table;
pub mod volume;
pub mod waiting;
