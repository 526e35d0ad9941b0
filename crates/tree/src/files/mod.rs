//! Files of a storage as the source and as the sink of a transfer.
//! Does not map names and does not open storages; `run` and `node` do.

mod agenda;
mod announced;
mod choice;
mod commit;
mod compare;
mod deferred;
mod delete;
mod destination;
mod directories;
mod error;
mod finisher;
mod floors;
mod held;
mod keeper;
mod leftovers;
mod links;
mod list;
mod maker;
mod offer;
mod open;
mod own_files;
mod planner;
mod ranges;
mod sink;
mod source;
mod spared;
mod spelling;
mod spill_list;
mod target;
mod unclaimed;
mod undelivered;
mod unusable;
mod verify;
mod writer;

pub use choice::Selecting;
pub use destination::{DestinationError, DestinationRequest, PreparedDestination};
pub use error::{CloseError, CommitError, DirectoriesError, FinishError, ListError};
pub use keeper::Keeper;
pub use list::ListWork;
pub use own_files::OwnFiles;
pub use sink::{TreeSink, TreeSinkConfig};
pub use source::{FoundRoot, TreeRoot, TreeSource, TreeWork, root_fault};
