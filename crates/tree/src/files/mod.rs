//! Files of a storage as the source and as the sink of a transfer. Does not map names or open
//! storages; `run` and `data_port` do.

mod arrived;
mod beacon;
mod destination;
mod error;
mod finish;
mod member;
mod plan;
mod read;
mod region;
mod sink;
mod target;
mod unusable;
mod write;

pub use arrived::Arrived;
pub use beacon::{Beacon, BeaconPlace};
pub use destination::{
    DestinationError, DestinationPlace, DestinationRequest, Earlier, PreparedDestination,
};
pub use error::{CloseError, CommitError, DirectoriesError, FinishError, ListError};
pub use member::Membership;
pub use plan::choice::Selecting;
pub use read::buffered::Buffering;
pub use read::items::{NoNames, WorkItem};
pub use read::keeper::Keeper;
pub use read::list::ListWork;
pub use read::own_files::OwnFiles;
pub use read::pooled::{OpenStorage, PoolAnswers, PoolFault, PoolPart, PoolQuestion};
pub use read::source::{FoundRoot, TreeRoot, TreeSource, TreeWork, root_fault};
pub use region::Region;
pub use sink::{TreeSink, TreeSinkConfig};
