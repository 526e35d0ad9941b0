//! A site that names a node of another site as its member leads no job there, and cannot use a right of the asking site there.
//! The hostile site is a data port in this process, with a cluster that the test makes up.

use std::fs;
use std::sync::Arc;

use godwit_api::ask::{AnswerCluster, ClusterAnswer, ClusterQuestion, Peer, Refusal, code};
use godwit_data_port::{Daemon, DaemonConfig};
use godwit_worlds::{data_port, export, node_home};

use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::{allow, peer};

/// Claims that the nodes of another site are its own.
struct Liar(Vec<Peer>);

impl AnswerCluster for Liar {
    fn answer(&self, _: &str, _: ClusterQuestion) -> Result<ClusterAnswer, Refusal> {
        Err(Refusal::new(code::UNSUPPORTED, "not today"))
    }

    fn nodes(&self, _: &str) -> Result<Vec<Peer>, Refusal> {
        Ok(self.0.clone())
    }

    fn is_member(&self, _: &str) -> Result<bool, Refusal> {
        Ok(true)
    }
}

/// Starts the hostile site in a directory of the victim's rig.
fn hostile(rig: &Rig, nodes: Vec<Peer>) -> (Daemon, String) {
    let home = rig.path("hostile");
    let identity = node_home(&home, &rig.identity, "read,write");
    fs::create_dir_all(home.join("export/data")).expect("made");
    fs::write(home.join("export/data/own"), "of the hostile site").expect("written");
    let exports = vec![export("data", &home.join("export"))];
    let config = DaemonConfig {
        cluster: Some(Arc::new(Liar(nodes))),
        ..data_port(&home, &identity, exports)
    };
    let daemon = Daemon::start(config, &identity).expect("started");
    (daemon, identity.id().to_string())
}

#[test]
fn a_site_that_names_nodes_of_another_one_leads_no_job_there() {
    let (mut here, mut victim) = (Rig::new(), Rig::new());
    here.serve(&[]);
    victim.serve(&[]);
    allow(&victim, &here.identity, "data", &["--read", "--write"]);
    here.write("export/run42/f", b"data");
    victim.write("export/data/secret", b"secret");
    let (mut daemon, identity) = hostile(&here, vec![peer(&victim, "node")]);
    let address = daemon.addresses()[0].to_string();
    let outcome = here.admin(&["site", "add", "siteH", &address, "--identity", &identity]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for divide in ["never", "always"] {
        for (number, (from, to)) in [
            ("here:/data/run42", "siteH:/data/data/copy"),
            ("siteH:/data/data", "here:/data/in/"),
        ]
        .into_iter()
        .enumerate()
        {
            let more = [
                "--divide",
                divide,
                "--retries",
                "0",
                "--setting",
                "retry-for=0s",
            ];
            let id = submit(&here, from, to, &more);
            let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
            let at_victim = fs::read_dir(victim.export.join("data")).expect("there");
            assert_eq!(at_victim.count(), 1, "{divide} {number}: {ended}");
            let secret = here.export.join("in/data/secret");
            assert!(!secret.exists(), "{divide} {number}: {ended}");
        }
    }
    daemon.stop();
}
