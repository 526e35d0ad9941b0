//! The ends of a transfer: files of a storage, standard streams, memory; selection and verification of files.
//! Does not transport bytes between the ends; `engine` does.

pub mod arriving;
mod files;
pub mod pipe;
pub mod select;
pub mod shared;
pub mod synthetic;
pub mod verification;

pub use files::{
    Arrived, Beacon, BeaconPlace, Buffering, CloseError, CommitError, DestinationError,
    DestinationPlace, DestinationRequest, DirectoriesError, Earlier, FinishError, FoundRoot,
    Keeper, ListError, ListWork, Membership, NoNames, OpenStorage, OwnFiles, PoolAnswers,
    PoolFault, PoolPart, PoolQuestion, PreparedDestination, Region, Selecting, TreeRoot, TreeSink,
    TreeSinkConfig, TreeSource, TreeWork, WorkItem, root_fault,
};
