//! Errors that concern a whole destination, one type for each operation of a tree sink. Failures of
//! single entries are `Fault`s instead.

use std::io;
use std::sync::Arc;

use godwit_engine::{PANICKED, SinkFailure};
use godwit_proto::ErrorCode;
use godwit_store::StoreError;
use godwit_store::journal::JournalError;

use crate::files::DestinationError;
use crate::files::member::FENCED;

/// The error that stopped the committer: no more data becomes durable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Several batches in a row could not be synced.
    #[error("the destination storage fails to sync; nothing more is written there")]
    Sync,
    /// Files have their final names, but the names may not survive a power cut.
    #[error("the new names cannot be made durable: {0}")]
    Names(StoreError),
    /// The journal refused a record.
    #[error("the journal cannot be written: {0}")]
    Journal(Arc<JournalError>),
    /// The claim has ended.
    #[error("{FENCED}")]
    Fenced,
    /// The transfer has already ended.
    #[error("the transfer has ended, so no more changes are made at the destination")]
    Ended,
    /// The committer's thread panicked.
    #[error("{PANICKED}")]
    Panicked,
}

/// A list of work for the end of the transfer cannot be read from disk.
#[derive(Debug, thiserror::Error)]
#[error(
    "records of the steps left for the end cannot be read back: {0}; give the same command again"
)]
pub struct ListError(#[from] pub io::Error);

/// Some keys of entries could not be stored or read, so nothing is known of any entry.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct KeysError(Arc<io::Error>);

impl From<io::Error> for KeysError {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

/// The extra entries of the destination cannot be found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExtrasError {
    /// Not all announced entries are known.
    #[error(transparent)]
    Announced(#[from] KeysError),
    /// The destination cannot be listed.
    #[error(transparent)]
    Survey(#[from] StoreError),
    /// The destination's entries cannot be recorded, sorted or compared.
    #[error(transparent)]
    Notes(#[from] io::Error),
}

/// The names and times of directories may not be durable.
#[derive(Debug, thiserror::Error)]
pub enum DirectoriesError {
    /// The directories could not be synced.
    #[error("the destination cannot be made durable: {0}")]
    Sync(StoreError),
    /// The list of directories cannot be read.
    #[error(transparent)]
    List(#[from] ListError),
}

/// The transfer is complete except for its last steps.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// Temporary files of an earlier run could not be removed.
    #[error("files left by an earlier run cannot be removed: {0}")]
    Sweep(StoreError),
    /// The journal could not be removed, so the same command would resume a complete transfer.
    #[error("the journal cannot be removed: {0}")]
    Journal(JournalError),
}

/// The error that prevents the end of a transfer.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// Not all data is durable.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A list failed: links, deferred names, or reports of replaced entries.
    #[error(transparent)]
    List(#[from] ListError),
    /// A directory could not be finished.
    #[error(transparent)]
    Directories(#[from] DirectoriesError),
    /// Attributes of existing files may not be durable.
    #[error("the destination cannot be made durable: {0}")]
    Attributes(StoreError),
    /// The last steps failed.
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
    /// The error code for programs.
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
