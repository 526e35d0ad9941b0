//! Owns a state for tests of single commands.
//! Has no consensus log.

use godwit_state::{Command, CommandError, Effect, JobOp, JobState, Op, Reader, Store};

use super::{command, job_command};

/// A state that counts its commands.
pub(crate) struct State {
    store: Store,
    pub(crate) reader: Reader,
    index: u64,
    _directory: tempfile::TempDir,
}

impl State {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store::open(&directory.path().join("state.db")).expect("open");
        let reader = Reader::new(store.file().to_owned());
        Self {
            store,
            reader,
            index: 0,
            _directory: directory,
        }
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Result<Effect, CommandError> {
        self.index += 1;
        self.store.apply(self.index, command).expect("apply")
    }

    pub(crate) fn op(&mut self, millis: i64, op: Op) -> Result<Effect, CommandError> {
        self.apply(&command(millis, op))
    }

    pub(crate) fn job(&mut self, millis: i64, op: JobOp) -> Result<Effect, CommandError> {
        self.apply(&job_command(millis, "job", op))
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.reader.job("job").expect("read").expect("there").epoch
    }

    pub(crate) fn state(&self) -> (JobState, Option<String>) {
        let job = self.reader.job("job").expect("read").expect("there");
        (job.state, job.reason.map(|reason| reason.code.to_string()))
    }
}
