//! Errors that concern a whole destination, one type for each operation of a tree sink.
//! Failures of single entries are `Fault`s, and are not here.

use std::io;
use std::sync::Arc;

use godwit_engine::{PANICKED, SinkFailure};
use godwit_proto::ErrorCode;
use godwit_store::StoreError;
use godwit_store::journal::JournalError;

use crate::files::DestinationError;
use crate::files::member::FENCED;

/// The error that ended the committer: nothing more becomes durable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Several batches in a row could not be synced.
    #[error("the destination storage fails to sync; nothing more is written there")]
    Sync,
    /// Files have their names, and the names may not survive a power cut.
    #[error("the new names cannot be made durable: {0}")]
    Names(StoreError),
    /// The journal does not take a record.
    #[error("the journal cannot be written: {0}")]
    Journal(Arc<JournalError>),
    /// The claim has ended.
    #[error("{FENCED}")]
    Fenced,
    /// The transfer has ended meanwhile.
    #[error("the transfer has ended, so no more changes are made at the destination")]
    Ended,
    /// The committer's thread panicked.
    #[error("{PANICKED}")]
    Panicked,
}

/// A list of work for the end of the transfer cannot be read back from disk.
#[derive(Debug, thiserror::Error)]
#[error(
    "records of the steps left for the end cannot be read back: {0}; give the same command again"
)]
pub struct ListError(#[from] pub io::Error);

/// Keys of entries could not all be kept, or cannot be read back, so that nothing is known of any entry.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct KeysError(Arc<io::Error>);

impl From<io::Error> for KeysError {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

/// The entries that only the destination has cannot be found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExtrasError {
    /// The announced entries are not all known.
    #[error(transparent)]
    Announced(#[from] KeysError),
    /// The destination cannot be looked through.
    #[error(transparent)]
    Survey(#[from] StoreError),
    /// The entries of the destination cannot be noted, sorted or compared.
    #[error(transparent)]
    Notes(#[from] io::Error),
}

/// The names and times of directories are not safe.
#[derive(Debug, thiserror::Error)]
pub enum DirectoriesError {
    /// The directories do not survive a power cut.
    #[error("the destination cannot be made durable: {0}")]
    Sync(StoreError),
    /// The list of directories cannot be read back.
    #[error(transparent)]
    List(#[from] ListError),
}

/// The transfer is complete but for its last steps.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// Temporary files of an earlier run stay.
    #[error("files left by an earlier run cannot be removed: {0}")]
    Sweep(StoreError),
    /// The journal stays, so that the same command would resume a complete transfer.
    #[error("the journal cannot be removed: {0}")]
    Journal(JournalError),
}

/// The error that prevents the end of a transfer.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// Not everything is durable.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A list failed: links, names that waited, or reports of replaced entries.
    #[error(transparent)]
    List(#[from] ListError),
    /// Directories.
    #[error(transparent)]
    Directories(#[from] DirectoriesError),
    /// Attributes of files that were there are not safe.
    #[error("the destination cannot be made durable: {0}")]
    Attributes(StoreError),
    /// The last steps.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// The deletion would empty the destination.
    #[error(
        "nothing was deleted: the source is empty, and {would_go} of the destination would go; if that is meant, give --max-delete"
    )]
    EmptySource {
        /// The number of entries, in words.
        would_go: String,
    },
}

impl DestinationError {
    /// Why, for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Busy { .. } | Self::Stale(_) => ErrorCode::BUSY,
            Self::Journal { .. } => ErrorCode::JOURNAL,
            Self::Unsuitable(_) | Self::Store(_) => ErrorCode::DESTINATION,
        }
    }
}

impl From<CommitError> for SinkFailure {
    fn from(error: CommitError) -> Self {
        let message = error.to_string();
        match error {
            CommitError::Sync | CommitError::Names(_) => Self::Sync(message),
            CommitError::Journal(_) => Self::Journal(message),
            CommitError::Fenced | CommitError::Ended => Self::Fenced(message),
            CommitError::Panicked => Self::Panicked,
        }
    }
}

impl From<FinishError> for SinkFailure {
    fn from(error: FinishError) -> Self {
        let message = error.to_string();
        match error {
            FinishError::Commit(error) => error.into(),
            FinishError::List(_) | FinishError::Directories(DirectoriesError::List(_)) => {
                Self::Spill(message)
            }
            FinishError::Directories(DirectoriesError::Sync(_)) | FinishError::Attributes(_) => {
                Self::Sync(message)
            }
            FinishError::Close(CloseError::Sweep(_)) => Self::Leftovers(message),
            FinishError::Close(CloseError::Journal(_)) => Self::Journal(message),
            FinishError::EmptySource { .. } => Self::EmptySource(message),
        }
    }
}
