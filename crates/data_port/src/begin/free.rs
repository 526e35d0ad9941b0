//! Frees the destination of a transfer: ends an earlier transfer of the same name whose client is gone.
//! Does not know the transfers (`table`) and does not write.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use godwit_net::IdentityId;
use godwit_tree::{DestinationError, DestinationRequest, PreparedDestination};

use crate::Shared;
use crate::allow::{Denial, Who};
use crate::refusal::{refusal, silent};
use crate::table::{Holder, Patience};

/// How long a transfer without a client may still hold its destination.
const SUPERSEDE_PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for a transfer of the same name.
pub(super) const PATIENCE: Patience = Patience {
    silent: SUPERSEDE_PATIENCE,
    leaving: Duration::from_secs(2),
};

const SUPERSEDE_LOOK_EVERY: Duration = Duration::from_millis(50);

/// Prepares the destination; an earlier transfer with the same name is ended if its client is gone. If its client answers and stays, the
/// new transfer is refused. A transfer of a node that lets this node take over the job is also ended, if that node does not answer.
pub(super) fn prepare(
    shared: &Shared,
    (who, label): (&Who, &str),
    key: &[u8; 32],
    asked: &[u8],
    request: &DestinationRequest,
) -> Result<PreparedDestination, Denial> {
    let no = |error: DestinationError| refusal(shared, who.peer, &error, asked);
    let mut prepared = request.clone().prepare();
    // Other transfers whose clients are gone are ended: they can be started again, but this transfer has a client now.
    while let Err(DestinationError::Busy {
        same: false,
        destination,
        ..
    }) = &prepared
        && shared
            .table
            .end_deserted(destination.as_bytes(), who, label, SUPERSEDE_PATIENCE)
    {
        prepared = request.clone().prepare();
    }
    let Err(error @ DestinationError::Busy { same: true, .. }) = prepared else {
        return prepared.map_err(no);
    };
    match shared.table.supersede(key, &who.peer, PATIENCE) {
        Holder::Free => {}
        Holder::Attended => return Err(no(error)),
        Holder::Silent => return Err(silent(shared, who.peer, &error, asked)),
    }
    // Another process may hold the destination for a client that is gone; the process releases it when it sees this file.
    let wanted = wanted_file(&shared.config.home, key);
    if let Err(error) = std::fs::write(&wanted, []) {
        shared
            .operator
            .log_peer(who.peer, &format!("{}: {error}", wanted.display()));
    }
    let until = Instant::now() + SUPERSEDE_PATIENCE;
    let prepared = loop {
        match request.clone().prepare() {
            Err(DestinationError::Busy { same: true, .. }) if Instant::now() < until => {
                std::thread::park_timeout(SUPERSEDE_LOOK_EVERY);
            }
            other => break other,
        }
    };
    // If the file remained, it would end the next transfer of this name when the client of that transfer is disconnected for a moment.
    let _ = std::fs::remove_file(&wanted);
    prepared.map_err(no)
}

/// Sent to a peer if a journal is damaged. The log contains the path, which the peer may not see.
const DAMAGED: &str = "the journal of an earlier run of this transfer is damaged at the other side, so this run sends some data again; see the log of the other side";

/// Logs the damage in the journal, and leaves a message for the peer without a path of this machine. The client of an agent may see the
/// paths of the user's files.
pub(super) fn report_damage(shared: &Shared, peer: IdentityId, prepared: &mut PreparedDestination) {
    let Some(damage) = &mut prepared.recovered.damage else {
        return;
    };
    shared.operator.log_peer(peer, damage);
    if shared.only.is_none() {
        DAMAGED.clone_into(damage);
    }
}

/// The file that asks the holder of this transfer's key to release it, if the holder has no client.
pub(crate) fn wanted_file(home: &Path, key: &[u8; 32]) -> PathBuf {
    let digits: String = key[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    home.join("journals").join(digits).with_extension("wanted")
}
