//! Owns the errors of requests to a node, with messages for users. Gets the exit codes from the
//! failure catalogue.

use std::io;
use std::path::PathBuf;

use godwit_api::failure::{Exit, Failure, FailureCode};
use godwit_api::rest::Problem;
use thiserror::Error;

use crate::pin::Fingerprint;

/// Reason why a request to a node failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No node listens at the socket of a home directory.
    #[error(
        "no node runs with the home {0}; start one with: GODWIT_HOME={0} godwit serve --export NAME=PATH; for a node with another home set GODWIT_HOME, for a node on another machine add --node https://HOST",
        home.display()
    )]
    NotRunning {
        /// The home directory.
        home: PathBuf,
    },
    /// The socket of a home directory cannot be used.
    #[error("the socket {} of the node cannot be used: {source}", socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The connection could not be made.
    #[error(
        "{node} cannot be reached: {reason}; check the address, that the node runs, and that no firewall blocks the connection"
    )]
    Unreachable {
        /// The node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The node presented another certificate than the pinned one.
    #[error(
        "{node} showed a certificate whose key is {shown}, but {expected} is expected: the node has a new certificate, or another machine answers. Ask the node's operator for the fingerprint of the key; if the key is new, run: godwit node trust URL FINGERPRINT"
    )]
    OtherCertificate {
        /// The node.
        node: String,
        /// The fingerprint that the node presented.
        shown: Fingerprint,
        /// The pinned fingerprint.
        expected: Fingerprint,
    },
    /// No certificate authority of the system confirms the certificate.
    #[error(
        "{node} showed a certificate whose key is {shown}, and no authority of this system vouches for it ({reason}). If the node printed this fingerprint at its start, run: godwit node trust URL {shown}"
    )]
    UnknownCertificate {
        /// The node.
        node: String,
        /// The fingerprint that the node presented.
        shown: Fingerprint,
        /// The reason why verification against the system's authorities failed.
        reason: String,
    },
    /// The node did not answer in time.
    #[error(
        "{node} did not answer within {seconds} s; the request may or may not have been carried out"
    )]
    TimedOut {
        /// The node.
        node: String,
        /// The deadline, in seconds.
        seconds: u64,
    },
    /// The connection broke before the node answered.
    #[error(
        "the connection to {node} broke: {reason}; the request may or may not have been carried out"
    )]
    Broken {
        /// The node.
        node: String,
        /// The error of the connection.
        reason: String,
    },
    /// The answer is not an answer of the API.
    #[error(
        "this program cannot read the answer of {node}: {reason}; check that both have the same version"
    )]
    Answer {
        /// The node.
        node: String,
        /// Description of the error.
        reason: String,
    },
    /// The node refused the request.
    #[error("{}", refusal(.node, .problem))]
    Refused {
        /// The node.
        node: String,
        /// The node's description of the problem.
        problem: Box<Problem>,
    },
    /// Several jobs have ids that begin with this prefix.
    #[error("{prefix}: the ids of several jobs begin like this ({}); write more characters", examples.join(", "))]
    Ambiguous {
        /// The prefix.
        prefix: String,
        /// Ids of some of the jobs.
        examples: Vec<String>,
    },
    /// This machine lacks something that the client needs.
    #[error("{0}")]
    Setup(String),
}

impl ClientError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NotRunning { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. } => true,
            Self::Refused { problem, .. } => {
                problem.status >= 500 || problem.status == 429 || problem.status == 408
            }
            Self::Socket { .. }
            | Self::OtherCertificate { .. }
            | Self::UnknownCertificate { .. }
            | Self::Answer { .. }
            | Self::Ambiguous { .. }
            | Self::Setup(_) => false,
        }
    }

    /// The status of the refusal, if the node refused.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { problem, .. } => Some(problem.status),
            _ => None,
        }
    }

    fn code(&self) -> FailureCode {
        match self {
            Self::Refused { problem, .. } => {
                let known = problem.code.known();
                known.unwrap_or_else(|| of_status(problem.status).0)
            }
            Self::OtherCertificate { .. } => FailureCode::IdentityChanged,
            Self::UnknownCertificate { .. } => FailureCode::UnknownPeer,
            Self::Ambiguous { .. } => FailureCode::Usage,
            Self::NotRunning { .. } | Self::Unreachable { .. } | Self::Broken { .. } => {
                FailureCode::Unreachable
            }
            Self::TimedOut { .. } => FailureCode::PeerSilent,
            Self::Answer { .. } => FailureCode::VersionMismatch,
            Self::Socket { .. } | Self::Setup(_) => FailureCode::LocalFailure,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let status = error.status();
        Self {
            // Several codes of the catalogue have a different exit code if they are not about a
            // request.
            exit: status.map(|status| of_status(status).1),
            ..Self::new(error.code(), &error)
        }
    }
}

/// The code of a refusal whose code this program does not know, and the exit code of the command.
const fn of_status(status: u16) -> (FailureCode, Exit) {
    match status {
        401 => (FailureCode::Unauthorized, Exit::Authentication),
        403 => (FailureCode::AccessDenied, Exit::Authentication),
        400 | 413 | 415 | 422 => (FailureCode::Usage, Exit::Usage),
        404 => (FailureCode::NotFound, Exit::Failed),
        429 => (FailureCode::PeerBusy, Exit::Failed),
        _ => (FailureCode::PeerFailed, Exit::Failed),
    }
}

/// The message of the node; with the id of the request in the node's log, if that helps.
fn refusal(node: &str, problem: &Problem) -> String {
    let said = if problem.detail.is_empty() {
        &problem.title
    } else {
        &problem.detail
    };
    match &problem.request {
        Some(request) if problem.status >= 500 => {
            format!("{node} failed: {said} (its log knows this as request {request})")
        }
        _ => format!("{node} refused: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::failure::Code;

    use super::*;

    fn refused(status: u16, code: &str) -> Failure {
        let code = Code::of_word(code);
        ClientError::Refused {
            node: "n".to_owned(),
            problem: Box::new(Problem::new(status, code, "no")),
        }
        .into()
    }

    #[test]
    fn a_refusal_keeps_its_code_and_the_status_decides_the_exit_code() {
        for (status, code, expected, exit) in [
            (404, "not_found", FailureCode::NotFound, Exit::Failed),
            (404, "no_such_job", FailureCode::NoSuchJob, Exit::Failed),
            (404, "of_tomorrow", FailureCode::NotFound, Exit::Failed),
            (429, "too_many", FailureCode::TooMany, Exit::Failed),
            (422, "unknown_site", FailureCode::UnknownSite, Exit::Usage),
            (403, "busy", FailureCode::Busy, Exit::Authentication),
            (500, "of_tomorrow", FailureCode::PeerFailed, Exit::Failed),
        ] {
            let failure = refused(status, code);
            assert_eq!((failure.code, failure.exit()), (expected, exit), "{code}");
        }
        let jobs = FailureCode::NoSuchTransfer.advice();
        assert_ne!(refused(404, "not_found").code.advice(), jobs);
    }
}
