//! A copy at a daemon: entries go there, differences come back.
//! Keeps no connection up; the engine's session does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_api::endpoint::{Place, Remote, SshPlace};
use godwit_api::settings::VerifySettings;
use godwit_engine::session::{Client, Expectations, VerifyEnd, run_verification};
use godwit_engine::tuner::Bounds;
use godwit_net::Identity;
use godwit_proto::{Direction, Fault, Open, Record, Verification};

use super::Checklist;
use super::findings::Findings;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::ssh::{Rsh, SshConnector, SshOptions};
use crate::transfer::client_tls;
use crate::transfer::remote::{Reach, reach};

/// False if it was interrupted.
pub(super) fn check_by_ssh(
    settings: &VerifySettings,
    checklist: Checklist,
    place: &SshPlace,
    home: &Home,
    findings: &Findings,
    interrupted: &Arc<AtomicBool>,
) -> Result<bool, Failure> {
    if !settings.channels.is_empty() {
        return Err(Failure::usage(
            "--channel: a check by ssh goes through ssh itself, which chooses its own path",
        ));
    }
    let known = Identity::load_or_create(home.path()).map_err(Failure::failed)?;
    let once = Identity::ephemeral().map_err(Failure::failed)?;
    let options = SshOptions {
        rsh: Rsh::new(&settings.rsh, &settings.remote_command)?,
        login: place.login.clone(),
        data_ports: None,
        channels: Vec::new(),
        // All of it is names and findings, which go through ssh in any case.
        via_ssh: true,
        retry_for: settings.retry_for,
        handshake_deadline: settings.handshake_deadline,
        stall_limit: settings.stall_deadline,
        interrupted: Arc::clone(interrupted),
    };
    let tls = client_tls(settings.cipher, &once)?;
    let client = Client {
        connector: Arc::new(SshConnector::new(
            options,
            known.id().to_string(),
            *once.id(),
            tls,
        )),
        streams: Bounds::fixed(1),
        retry_for: settings.retry_for,
        once: None,
    };
    let goes_on = || !interrupted.load(Ordering::Relaxed);
    ask(
        settings,
        checklist,
        &client,
        place.path.clone(),
        findings,
        &goes_on,
    )
}

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
            channels: &settings.channels,
            cipher: settings.cipher,
            streams: Bounds::fixed(1),
            retry_for: settings.retry_for,
            handshake_deadline: settings.handshake_deadline,
            stall_deadline: settings.stall_deadline,
            quiet: settings.json,
        },
        remote,
    )?;
    let path = remote.place.to_wire();
    ask(settings, checklist, &far.client, path, findings, goes_on)
}

fn ask(
    settings: &VerifySettings,
    checklist: Checklist,
    client: &Client,
    path: Vec<u8>,
    findings: &Findings,
    goes_on: &dyn Fn() -> bool,
) -> Result<bool, Failure> {
    let open = Open {
        direction: Direction::VERIFY.0,
        sources: vec![path],
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
    match run_verification(client, &open, &mut asking) {
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
