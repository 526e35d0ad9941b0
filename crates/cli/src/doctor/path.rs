//! Measures the path to a node: from memory to memory, for some seconds, if the user asks for it.
//! Reads and writes no file, here or there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::endpoint::{Endpoint, NodePlace, Remote};
use godwit_api::event::{Event, EventSink};
use godwit_api::failure::Failure;
use godwit_api::job::{Imposed, JOB_VERSION, JobKind, JobSpec};
use godwit_api::units::human_rate;
use godwit_run::{Control, Runner};

use super::findings::{Direction, Findings, Limit};
use super::{Node, Subject};
use crate::commands::memory_env;

/// Duration of the measurement.
const MEASURED_FOR: Duration = Duration::from_secs(3);

/// More bytes than any path takes in that time.
const MEMORY_BYTES: u64 = 16 << 40;

/// Bytes seen so far.
#[derive(Default)]
struct Seen {
    /// Time of the first bytes, and their number.
    first: Option<(Instant, u64)>,
    last: Option<(Instant, u64)>,
}

struct Watched {
    seen: Mutex<Seen>,
    control: Control,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Watched {
    fn emit(&self, event: Event) {
        let Event::Progress(progress) = event else {
            return;
        };
        let now = Instant::now();
        let mut seen = self.lock();
        if progress.bytes == 0 {
            return;
        }
        let (began, _) = *seen.first.get_or_insert((now, progress.bytes));
        seen.last = Some((now, progress.bytes));
        if now.duration_since(began) >= MEASURED_FOR {
            self.control.cancel();
        }
    }
}

/// Measures the path in the direction that data would take.
pub(super) fn look(node: &Node, subject: &Subject, findings: &mut Findings) {
    let (way, verb) = match subject.far_gives {
        true => (Direction::Receiving, "from"),
        false => (Direction::Sending, "to"),
    };
    match measure(node, subject) {
        Ok(rate) => {
            findings.fine(
                "path",
                format!(
                    "{} {verb} {} from memory to memory",
                    human_rate(rate),
                    node.node
                ),
            );
            findings.limits.push(Limit {
                name: "path",
                way,
                what: format!("the path {verb} {}, as measured", node.node),
                bytes_per_second: rate,
                mend: "if that is too slow: a faster network, or more interfaces".to_owned(),
            });
        }
        Err(failure) => findings.note("path", format!("not measured: {}", failure.message), None),
    }
}

fn measure(node: &Node, subject: &Subject) -> Result<u64, Failure> {
    let there = |place| {
        Endpoint::Remote(Remote {
            node: node.node.clone(),
            place,
        })
    };
    let bytes = MEMORY_BYTES;
    let (source, destination) = match subject.far_gives {
        true => (there(NodePlace::Memory { bytes }), Endpoint::Null),
        false => (Endpoint::Memory { bytes }, there(NodePlace::Null)),
    };
    let spec = JobSpec {
        version: JOB_VERSION,
        kind: JobKind::Copy,
        sources: vec![source],
        destination,
        settings: Default::default(),
        selection: None,
        member: None,
        items: Vec::new(),
        imposed: Imposed::default(),
    };
    let control = Control::default();
    let watched = Arc::new(Watched {
        seen: Mutex::default(),
        control: control.clone(),
    });
    let events: Arc<dyn EventSink> = Arc::clone(&watched) as Arc<dyn EventSink>;
    let env = memory_env(&subject.settings, &subject.home);
    let ended = Runner::run(&spec, &env, &events, &control);
    if let Err(failure) = ended
        && !control.is_cancelled()
    {
        return Err(failure);
    }
    let seen = watched.lock();
    match (seen.first, seen.last) {
        (Some((began, first)), Some((ended, last))) if ended > began && last > first => {
            let time = ended.duration_since(began);
            Ok(godwit_store::measure::rate(last - first, time))
        }
        _ => Err(Failure::local("too little arrived")),
    }
}
