//! Checks a copy at a daemon: sends entries, and receives differences. Does not keep connections
//! open; the engine's session does.

use std::sync::Arc;

use godwit_api::endpoint::{NodePlace, Remote, SshPlace};
use godwit_api::failure::Failure;
use godwit_engine::session::{Client, Expectations, Refusal, VerifyEnd, run_verification};
use godwit_engine::tuner::Bounds;
use godwit_proto::{Direction, Fault, Open, Record, Verification};

use super::{CheckInputs, Checklist};
use crate::env::SshTarget;
use crate::transfer::reach::{Reach, reach};
use crate::transfer::{refusal_of, refused, ssh_client};

/// Checks a copy on a machine that ssh reaches. Returns false if it was interrupted.
pub(super) fn check_by_ssh(
    asked: &CheckInputs<'_>,
    checklist: Checklist,
    place: &SshPlace,
) -> Result<bool, Failure> {
    let CheckInputs {
        settings,
        env,
        control,
        ..
    } = asked;
    if !settings.channels.is_empty() {
        return Err(Failure::usage(
            "--channel: a check by ssh goes through ssh itself, which chooses its own path",
        ));
    }
    let way = SshTarget {
        login: &place.login,
        rsh: &settings.rsh,
        remote_command: &settings.remote_command,
        install_remote: settings.install_remote,
        data_ports: None,
        channels: Vec::new(),
        // Names and results go through ssh in any case.
        via_ssh: true,
        retry_for: settings.retry_for,
        handshake_deadline: settings.handshake_deadline,
        stall_deadline: settings.stall_deadline,
        cancelled: Arc::clone(control.cancelled()),
    };
    let client = Client {
        connector: env
            .connectors
            .by_ssh(way, ssh_client(&env.home, settings.cipher)?)?,
        streams: Bounds::fixed(1),
        retry_for: settings.retry_for,
        once: None,
        retries_first: env.retries_first,
    };
    ask(asked, checklist, &client, place.path.clone())
}

/// Checks a copy at a node. Returns false if it was interrupted.
pub(super) fn check(
    asked: &CheckInputs<'_>,
    checklist: Checklist,
    remote: &Remote,
) -> Result<bool, Failure> {
    if !matches!(remote.place, NodePlace::Export { .. }) {
        return Err(Failure::usage(format!("{remote} cannot be verified")));
    }
    let settings = asked.settings;
    let far = reach(
        &Reach {
            env: asked.env,
            channels: &settings.channels,
            cipher: settings.cipher,
            streams: Bounds::fixed(1),
            retry_for: settings.retry_for,
            handshake_deadline: settings.handshake_deadline,
            stall_deadline: settings.stall_deadline,
        },
        remote,
    )?;
    ask(asked, checklist, &far.client, remote.place.to_wire())
}

fn ask(
    asked: &CheckInputs<'_>,
    checklist: Checklist,
    client: &Client,
    path: Vec<u8>,
) -> Result<bool, Failure> {
    let settings = asked.settings;
    let open = Open {
        direction: Direction::VERIFY.0,
        sources: vec![path],
        label: asked.env.label.clone().unwrap_or_default(),
        mandate: asked.env.wire_mandate(),
        digest: godwit_engine::wire_digest_kind(checklist.digest_kind())
            .0
            .into(),
        threads: settings.threads,
        verification: Some(Verification {
            contents_only: settings.content_only,
            extra: settings.extra,
            durable: asked.durable,
        }),
        ..Open::default()
    };
    let mut asking = Asking { checklist, asked };
    match run_verification(client, &open, &mut asking) {
        Ok(VerifyEnd::Finished) => Ok(true),
        Ok(VerifyEnd::Interrupted) => Ok(false),
        Err(refusal) => Err(refused(&refusal)),
    }
}

struct Asking<'a> {
    checklist: Checklist,
    asked: &'a CheckInputs<'a>,
}

impl Expectations for Asking<'_> {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Refusal> {
        self.checklist.next_batch().map_err(refusal_of)
    }

    fn checked(&mut self, record: &Record, fault: Option<&Fault>) {
        self.asked.findings.checked(record, fault);
    }

    fn extra(&mut self, path: &[u8]) {
        self.asked.findings.extra(path);
    }

    fn goes_on(&mut self) -> bool {
        self.asked.goes_on()
    }
}
