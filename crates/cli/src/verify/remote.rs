//! A copy at a daemon: entries go there, differences come back.
//! Keeps no connection up; the engine's session does.

use godwit_api::endpoint::{Place, Remote};
use godwit_api::settings::VerifySettings;
use godwit_engine::session::{Expectations, VerifyEnd, run_verification};
use godwit_proto::{Direction, Fault, Open, Record, Verification};

use super::Checklist;
use super::findings::Findings;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::transfer::remote::{Reach, reach};

/// False if it was interrupted.
pub(super) fn check(
    settings: &VerifySettings,
    checklist: Checklist,
    remote: &Remote,
    home: &Home,
    findings: &Findings,
    goes_on: &dyn Fn() -> bool,
) -> Result<bool, Failure> {
    if !matches!(remote.place, Place::Export { .. }) {
        return Err(Failure::usage(format!(
            "{remote} holds nothing that could be verified"
        )));
    }
    let far = reach(
        &Reach {
            home,
            cipher: settings.cipher,
            streams: 1,
            retry_for: settings.retry_for,
            handshake_deadline: settings.handshake_deadline,
            stall_deadline: settings.stall_deadline,
            quiet: settings.json,
        },
        remote,
    )?;
    let open = Open {
        direction: Direction::VERIFY.0,
        sources: vec![remote.place.to_wire()],
        digest: godwit_engine::wire_digest_kind(checklist.digest_kind())
            .0
            .into(),
        threads: settings.threads,
        verification: Some(Verification {
            contents_only: settings.content_only,
            extra: settings.extra,
        }),
        ..Open::default()
    };
    let mut asking = Asking {
        checklist,
        findings,
        goes_on,
    };
    match run_verification(&far.client, &open, &mut asking) {
        Ok(VerifyEnd::Finished) => Ok(true),
        Ok(VerifyEnd::Interrupted) => Ok(false),
        Err(refusal) => Err(Failure {
            exit: if refusal.is_authentication() {
                Exit::Authentication
            } else {
                Exit::Failed
            },
            message: refusal.to_string(),
        }),
    }
}

struct Asking<'a> {
    checklist: Checklist,
    findings: &'a Findings,
    goes_on: &'a dyn Fn() -> bool,
}

impl Expectations for Asking<'_> {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, String> {
        self.checklist.next_batch()
    }

    fn checked(&mut self, record: &Record, fault: Option<&Fault>) {
        self.findings.checked(record, fault);
    }

    fn extra(&mut self, path: &[u8]) {
        self.findings.extra(path);
    }

    fn goes_on(&mut self) -> bool {
        (self.goes_on)()
    }
}
