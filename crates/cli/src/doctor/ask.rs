//! Questions to the other side of a connection: its clock, the path both ways, its machine, the storage of a place.
//! Makes no connection.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use godwit_api::login::Login;
use godwit_api::settings::CpSettings;
use godwit_api::units::{human_rate, human_size};
use godwit_engine::session::{GreetError, receive_frame};
use godwit_net::Stream;
use godwit_proto::{Examine, Examined, Frame, MachineSeen, StorageSeen};
use godwit_run::local::{MUST_EXIST, NO_DIRECTORY};

use super::clock::{Difference, Exchange};
use super::findings::{Direction, Findings, Limit};
use super::node::Path;

/// A smaller packet is a sign of a tunnel, or of a wrong setting on the path.
const MTU_BYTES_USUAL: u32 = 1_500;
/// Bytes for many packets of full size each way.
const FILLER_BYTES: usize = 64 << 10;
/// Exchanges for the clock; the shortest one counts.
const CLOCK_TIMES: usize = 8;
/// Deadline of an answer that takes no work.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Deadline of an answer that takes work, such as measuring a storage or dialling addresses.
const WORK_DEADLINE: Duration = Duration::from_secs(30);

/// Asks questions on one connection.
pub(super) struct Asker<'a> {
    /// The stream, after HELLO.
    pub(super) stream: &'a mut dyn Stream,
    /// The other side, for people.
    pub(super) whose: &'a str,
    /// The login that can make a directory there by ssh.
    pub(super) login: Option<&'a Login>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The other side refuses.
    Refused(String),
    /// No answer came in time.
    Silent,
    /// Anything else.
    Lost(String),
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(why) | Self::Lost(why) => f.write_str(why),
            Self::Silent => f.write_str("no answer came in time"),
        }
    }
}

impl Asker<'_> {
    /// Sends one question. Returns the answer and its times.
    fn ask(
        &mut self,
        question: &Examine,
        deadline: Duration,
    ) -> Result<(Examined, Exchange), Unanswered> {
        let mut head = Vec::new();
        let lost = |error: String| Unanswered::Lost(error);
        question
            .encode(&mut head)
            .map_err(|error| lost(error.to_string()))?;
        let sent = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let asked = Instant::now();
        self.stream
            .send_all(&head)
            .map_err(|error| lost(error.to_string()))?;
        match receive_frame(self.stream, deadline) {
            Ok(Frame::Examined(answer)) if answer.nonce == question.nonce => {
                let exchange = Exchange {
                    sent,
                    took: asked.elapsed(),
                    held: Duration::from_nanos(answer.held_ns),
                    theirs_ns: i128::from(answer.clock_seconds) * 1_000_000_000
                        + i128::from(answer.clock_nanoseconds),
                };
                Ok((answer, exchange))
            }
            Ok(Frame::Error(error)) => Err(Unanswered::Refused(error.message)),
            Ok(other) => Err(lost(format!("an unexpected answer: {}", other.name()))),
            Err(GreetError::Deadline { .. }) => Err(Unanswered::Silent),
            Err(error) => Err(lost(error.to_string())),
        }
    }

    /// The difference of the other clock, and the shortest exchange.
    pub(super) fn clock(&mut self) -> Result<(Option<Difference>, Duration), Unanswered> {
        let mut exchanges = Vec::with_capacity(CLOCK_TIMES);
        for nonce in 0..CLOCK_TIMES as u64 {
            let question = Examine {
                nonce,
                ..Examine::default()
            };
            exchanges.push(self.ask(&question, ANSWER_DEADLINE)?.1);
        }
        let ways = exchanges
            .iter()
            .map(|exchange| exchange.took.saturating_sub(exchange.held));
        let shortest = ways.min().unwrap_or_default();
        Ok((Difference::best(&exchanges), shortest))
    }

    /// Sends packets of full size both ways, and then looks at the path as both kernels see it.
    pub(super) fn measure_path(&mut self, path: &mut Path, findings: &mut Findings) {
        let filled = Examine {
            nonce: 100,
            filler: vec![0; FILLER_BYTES],
            filler_wanted: u32::try_from(FILLER_BYTES).unwrap_or_default(),
            ..Examine::default()
        };
        let seen = self.ask(&filled, ANSWER_DEADLINE).and_then(|_| {
            let question = Examine {
                nonce: 101,
                ..Examine::default()
            };
            self.ask(&question, ANSWER_DEADLINE)
        });
        let answer = match seen {
            Ok((answer, _)) => answer,
            Err(Unanswered::Silent) => {
                findings.stop(
                    "path MTU",
                    "small packets arrive and full-size packets do not: a device on the path silently drops packets that are too large for it".to_owned(),
                    Some("let ICMP `fragmentation needed` through the firewalls; or as root on both machines: sysctl -w net.ipv4.tcp_mtu_probing=1".to_owned()),
                );
                return;
            }
            Err(why) => {
                findings.note(
                    "path MTU",
                    format!("the place cannot be checked: {why}"),
                    None,
                );
                return;
            }
        };
        let Some(info) = self.stream.tcp_info() else {
            return;
        };
        path.mtu_bytes = info.path_mtu_bytes;
        path.segment_bytes = info.segment_bytes;
        path.mtu_bytes_back = answer.way.map_or(0, |way| way.path_mtu_bytes);
        report_mtu(path, findings);
    }

    /// Whether the client can be dialled, at each address.
    pub(super) fn dialled(&mut self) -> Result<Examined, Unanswered> {
        let question = Examine {
            nonce: 102,
            dial: true,
            ..Examine::default()
        };
        self.ask(&question, WORK_DEADLINE).map(|(answer, _)| answer)
    }

    /// Asks about the machine of the other side, and about the storage of `place` if one is given.
    pub(super) fn machine(
        &mut self,
        place: Option<&[u8]>,
        settings: &CpSettings,
        findings: &mut Findings,
    ) -> Option<MachineSeen> {
        let question = Examine {
            nonce: 103,
            machine: true,
            place: place.unwrap_or_default().to_vec(),
            ..Examine::default()
        };
        let answer = match self.ask(&question, WORK_DEADLINE) {
            Ok((answer, _)) => answer,
            Err(why) => {
                let message = format!("{} cannot be checked: {why}", self.whose);
                findings.note("machine there", message, None);
                return None;
            }
        };
        if let Some(machine) = &answer.machine {
            processor(self.whose, machine, settings, findings);
        }
        if let (Some(place), Some(storage)) = (place, &answer.storage) {
            let place = String::from_utf8_lossy(place);
            storage_there(self.whose, self.login, &place, storage, findings);
        }
        answer.machine
    }
}

fn report_mtu(path: &Path, findings: &mut Findings) {
    let (there, back) = (path.mtu_bytes, path.mtu_bytes_back);
    let known: Vec<u32> = [there, back].into_iter().filter(|mtu| *mtu > 0).collect();
    let Some(least) = known.iter().min() else {
        return;
    };
    let back = match back {
        0 => String::new(),
        back => format!("; {back} bytes back"),
    };
    let message = format!(
        "{there} bytes there, {} of them content{back}",
        path.segment_bytes
    );
    if *least < MTU_BYTES_USUAL {
        let mend =
            "does a tunnel lie on the path? Packets this small cost both sides processor time";
        findings.note("path MTU", message, Some(mend.to_owned()));
    } else {
        findings.fine("path MTU", message);
    }
}

fn processor(whose: &str, machine: &MachineSeen, settings: &CpSettings, findings: &mut Findings) {
    let (seals, digests) = (
        machine.seal_bytes_per_second,
        machine.digest_bytes_per_second,
    );
    let cores = u64::from(machine.cores.max(1));
    if seals == 0 || digests == 0 {
        return;
    }
    findings.fine(
        "processor there",
        format!(
            "one of {cores} cores of {whose} encrypts {} with aes-256-gcm, digests {} with crc64-nvme",
            human_rate(seals),
            human_rate(digests)
        ),
    );
    let core =
        u128::from(seals) * u128::from(digests) / (u128::from(seals) + u128::from(digests)).max(1);
    let used = cores.min(u64::from(settings.streams.hold(2))).max(1);
    let all = u64::try_from(core * u128::from(used)).unwrap_or(u64::MAX);
    for way in [Direction::Sending, Direction::Receiving] {
        findings.limits.push(Limit {
            name: "processor there",
            way,
            what: format!("the processor of {whose} ({used} streams on {cores} cores)"),
            bytes_per_second: all,
            mend: "if that is too slow: more cores there".to_owned(),
        });
    }
}

fn storage_there(
    whose: &str,
    login: Option<&Login>,
    place: &str,
    storage: &StorageSeen,
    findings: &mut Findings,
) {
    let problem = &storage.problem;
    if !problem.is_empty() {
        let elsewhere = "name a place on that machine that you may write to";
        if problem.contains(MUST_EXIST) {
            let mend = login.and_then(|login| make_above(login, place));
            let mend = mend.unwrap_or_else(|| elsewhere.to_owned());
            findings.stop("storage there", format!("{place}: {problem}"), Some(mend));
        } else if problem.contains(NO_DIRECTORY) {
            let mend = "name another place on that machine".to_owned();
            findings.stop("storage there", format!("{place}: {problem}"), Some(mend));
        } else {
            let message = format!("{place}: not measured: {problem}");
            findings.note("storage there", message, Some(elsewhere.to_owned()));
        }
        return;
    }
    let (write, read) = (
        storage.write_bytes_per_second,
        storage.read_bytes_per_second,
    );
    findings.fine(
        "storage there",
        format!(
            "{place}: {} free, writes {}, reads {}",
            human_size(storage.free_bytes),
            human_rate(write),
            human_rate(read)
        ),
    );
    for (way, verb, rate) in [
        (Direction::Sending, "writing to", write),
        (Direction::Receiving, "reading from", read),
    ] {
        findings.limits.push(Limit {
            name: "storage there",
            way,
            what: format!("{verb} {place} of {whose}"),
            bytes_per_second: rate,
            mend: "if that is too slow: faster storage there".to_owned(),
        });
    }
}

/// The command that makes the parent directory of a destination there. None if a shell could misread the name.
fn make_above(login: &Login, place: &str) -> Option<String> {
    let below_home = place.strip_prefix("~/").unwrap_or(place);
    let (above, _) = below_home.trim_end_matches('/').rsplit_once('/')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+,@%-".contains(&byte);
    if above.bytes().all(is_plain) && !above.starts_with('-') {
        Some(format!("ssh {login} mkdir -p {above}"))
    } else {
        Some(format!(
            "make the directory {above} on that machine, with its parent directories"
        ))
    }
}
