//! Puts the log and the samples of a job together from the nodes of the cluster that ran its attempts.
//! Keeps no file: each node keeps its files, and is asked for them.
//!
//! Each node numbers its own lines of a job. In the log of the whole job the lines of attempt `n` have the numbers `(n - 1) << 32` and up.
//! So a line has one number, at each asked node, and whether or not another one can be reached.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, JobPast, PastAfter, Question, code};
use godwit_api::rest::{LogLine, LogPage, MissingNode, SampleView, Timestamp};
use godwit_state::{Node, PAGE_BYTES, Reader};

use crate::asking::{Asking, reached};
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;
use godwit_history::{NO_LINES, NO_SAMPLES};

/// Numbers of the lines of one attempt.
const LINES_OF_ATTEMPT: u64 = 1 << 32;

/// Bytes of a page of lines, which take four times as many in memory. A page has at least one line if any line is left.
const LINES_BYTES_MAX: usize = PAGE_BYTES / 4;

/// How long a node may take to answer.
const WITHIN: Duration = Duration::from_secs(3);

/// A node that did not answer is asked again after this time: a reader of a log does not wait for it each time.
const SILENT_FOR: Duration = Duration::from_secs(5);

/// Limit of questions for one log or for the samples of one node, enough for the longest files that a node allows.
const QUESTIONS_MAX: usize = 100;

/// Bytes of the samples of all nodes: a little more than one node keeps. In memory they take several times as many.
const SAMPLES_BYTES_MAX: usize = 16 << 20;

/// Jobs and nodes whose samples are remembered, their bytes, and for how long: a page reads them every few seconds.
const REMEMBERED_MAX: usize = 16;
const REMEMBERED_BYTES_MAX: usize = 2 * SAMPLES_BYTES_MAX;
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// More samples than a node keeps: it has thinned them out since.
const SAMPLES_MAX: usize = 4_096;

/// Samples of a job from another node, their bytes, and when they came.
struct KeptSamples {
    at: Instant,
    samples: Vec<SampleView>,
    bytes: usize,
}

/// The samples that are remembered, by job and node.
type Remembered = HashMap<(String, String), KeptSamples>;

/// Answers of other nodes about their records.
#[derive(Default)]
pub(crate) struct Others {
    silent: Mutex<HashMap<String, (Instant, String)>>,
    remembered: Mutex<Remembered>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Consecutive attempts that one node ran.
struct Run {
    node: String,
    first: u32,
    last: u32,
}

/// The runs of consecutive attempts by one node, the earliest first; None if this node ran all attempts.
fn runs(this: &ThisNode, id: &str) -> Result<Option<Vec<Run>>, JobsError> {
    let reader = this.reader();
    let own = &this.name;
    let mut runs: Vec<Run> = Vec::new();
    for attempt in reader.attempts(id)? {
        match runs.last_mut() {
            Some(run) if run.node == attempt.node => run.last = attempt.number,
            _ => runs.push(Run {
                node: attempt.node,
                first: attempt.number,
                last: attempt.number,
            }),
        }
    }
    let is_alone = reader.objects::<Node>()?.len() < 2;
    let is_own = runs.iter().all(|run| run.node == *own);
    Ok((!(is_alone && is_own)).then_some(runs))
}

/// A page of the log after number `after`, from all nodes that can be reached: at most `limit` lines, and fewer if they are long.
pub(crate) fn log(
    asking: &Asking,
    id: &str,
    after: u64,
    limit: usize,
) -> Result<LogPage, JobsError> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    let missing = match limit {
        0 => Vec::new(),
        _ => each_line(asking, id, after, &mut |line| {
            bytes += godwit_history::size(&line);
            if bytes > LINES_BYTES_MAX && !lines.is_empty() {
                return false;
            }
            lines.push(line);
            lines.len() < limit
        })?,
    };
    Ok(LogPage {
        next: lines.last().map_or(after, |line| line.seq),
        lines,
        missing,
    })
}

/// Calls `take` for each line of the log after number `after`, until it returns false. Returns the nodes that cannot be reached.
pub(crate) fn each_line(
    asking: &Asking,
    id: &str,
    after: u64,
    take: &mut dyn FnMut(LogLine) -> bool,
) -> Result<Vec<MissingNode>, JobsError> {
    let mut missing = Vec::new();
    let Some(runs) = runs(&asking.this, id)? else {
        godwit_history::each_line(&asking.this.directory, id, after, take)?;
        return Ok(missing);
    };
    let from = u32::try_from(after / LINES_OF_ATTEMPT).unwrap_or(u32::MAX);
    let from = from.saturating_add(1);
    for run in runs.iter().filter(|run| run.last >= from) {
        let first = run.first.max(from);
        let line = match run.first <= from {
            true => after % LINES_OF_ATTEMPT,
            false => 0,
        };
        match lines(asking, id, run, first, line, take)? {
            Ok(true) => {}
            Ok(false) => break,
            Err(why) => miss(&mut missing, &run.node, why),
        }
    }
    Ok(missing)
}

fn miss(missing: &mut Vec<MissingNode>, node: &str, why: String) {
    if missing.iter().all(|missing| missing.node != node) {
        missing.push(MissingNode {
            node: node.to_owned(),
            why,
        });
    }
}

/// Takes the lines of the attempts of a run from `first` on, after the node's own number `after`. Returns whether more are wanted; a sentence
/// if the node does not answer.
fn lines(
    asking: &Asking,
    id: &str,
    run: &Run,
    first: u32,
    mut after: u64,
    take: &mut dyn FnMut(LogLine) -> bool,
) -> Result<Result<bool, String>, JobsError> {
    let is_own = run.node == asking.this.name;
    for _ in 0..QUESTIONS_MAX {
        let past = match is_own {
            true => {
                godwit_history::read_past(&asking.this.directory, id, first, after, NO_SAMPLES)?
            }
            false => match ask(asking, &run.node, id, first, after, NO_SAMPLES) {
                Ok(past) => past,
                Err(why) => return Ok(Err(why)),
            },
        };
        let more = past.more;
        let Some(last) = past.lines.last() else {
            break;
        };
        // A node that repeats itself would be asked for ever.
        if last.seq <= after {
            break;
        }
        after = last.seq;
        let lines = past.lines.into_iter();
        let lines = lines.filter(|line| (first..=run.last).contains(&line.attempt));
        let mut lines = lines.map(|line| LogLine {
            seq: u64::from(line.attempt.saturating_sub(1)) * LINES_OF_ATTEMPT
                + line.seq % LINES_OF_ATTEMPT,
            node: (!is_own).then(|| run.node.clone()),
            ..line
        });
        if !lines.all(&mut *take) {
            return Ok(Ok(false));
        }
        if !more {
            break;
        }
    }
    Ok(Ok(true))
}

/// The samples of a job, the oldest first, and the nodes that did not send theirs. Those of several nodes are thinned out.
pub(crate) fn samples(
    asking: &Asking,
    id: &str,
) -> Result<(Vec<SampleView>, Vec<MissingNode>), JobsError> {
    let own = || godwit_history::read_samples(&asking.this.directory, id);
    let Some(runs) = runs(&asking.this, id)? else {
        return Ok((own()?, Vec::new()));
    };
    let mut nodes: Vec<String> = runs.into_iter().map(|run| run.node).collect();
    nodes.sort();
    nodes.dedup();
    let (mut all, mut missing) = (Joined::default(), Vec::new());
    for node in nodes {
        let samples = if node == asking.this.name {
            own()?
        } else {
            match samples_of(asking, id, &node) {
                Ok(mut samples) => {
                    for sample in &mut samples {
                        sample.node = Some(node.clone());
                    }
                    samples
                }
                Err(why) => {
                    miss(&mut missing, &node, why);
                    continue;
                }
            }
        };
        all.add(samples, SAMPLES_BYTES_MAX);
    }
    Ok((all.sorted(), missing))
}

/// The samples of several nodes. Those of each node are thinned out alike: the samples of two nodes may alternate, so every second one of
/// all could be each one of a node.
#[derive(Default)]
struct Joined {
    of_nodes: Vec<Vec<SampleView>>,
    halvings: u32,
}

impl Joined {
    /// Adds the samples of a node. Removes every second sample of each node until the rest has at most this many bytes.
    fn add(&mut self, mut samples: Vec<SampleView>, most: usize) {
        (0..self.halvings).for_each(|_| halve(&mut samples));
        self.of_nodes.push(samples);
        while self.bytes() > most && self.of_nodes.iter().any(|samples| samples.len() > 1) {
            self.of_nodes.iter_mut().for_each(halve);
            self.halvings += 1;
        }
    }

    fn bytes(&self) -> usize {
        let samples = self.of_nodes.iter().flatten();
        samples.map(godwit_history::size).sum()
    }

    /// All samples, the oldest first.
    fn sorted(self) -> Vec<SampleView> {
        let mut all: Vec<SampleView> = self.of_nodes.into_iter().flatten().collect();
        all.sort_by_key(|sample| (sample.attempt, sample.at));
        all
    }
}

/// Removes every second sample. The last one stays.
fn halve(samples: &mut Vec<SampleView>) {
    let mut left = samples.len();
    samples.retain(|_| {
        left -= 1;
        left.is_multiple_of(2)
    });
}

/// The samples that another node keeps: those that are remembered, and the new ones.
fn samples_of(asking: &Asking, id: &str, node: &str) -> Result<Vec<SampleView>, String> {
    let key = (id.to_owned(), node.to_owned());
    let known = lock(&asking.others.remembered).remove(&key);
    let known = known.filter(|one| one.at.elapsed() < REMEMBERED_FOR);
    let known = known.filter(|one| one.samples.len() < SAMPLES_MAX);
    let (mut samples, mut bytes) = match known {
        Some(one) => (one.samples, one.bytes),
        None => (Vec::new(), 0),
    };
    for _ in 0..QUESTIONS_MAX {
        let after = samples.last().map_or(Timestamp(0), |sample| sample.at);
        let past = ask(asking, node, id, 0, NO_LINES, after)?;
        let more = past.more && !past.samples.is_empty();
        let fresh = past.samples.into_iter().filter(|sample| sample.at > after);
        for sample in fresh {
            bytes += godwit_history::size(&sample);
            samples.push(sample);
        }
        if !more || samples.len() >= SAMPLES_MAX {
            break;
        }
    }
    remember(&mut lock(&asking.others.remembered), key, &samples, bytes);
    Ok(samples)
}

/// Remembers samples, if there is room for them.
fn remember(into: &mut Remembered, of: (String, String), samples: &[SampleView], bytes: usize) {
    into.retain(|_, one| one.at.elapsed() < REMEMBERED_FOR);
    let held: usize = into.values().map(|one| one.bytes).sum();
    if into.len() < REMEMBERED_MAX && held + bytes <= REMEMBERED_BYTES_MAX {
        let kept = KeptSamples {
            at: Instant::now(),
            samples: samples.to_vec(),
            bytes,
        };
        into.insert(of, kept);
    }
}

fn ask(
    asking: &Asking,
    node: &str,
    id: &str,
    attempt: u32,
    line: u64,
    sample: Timestamp,
) -> Result<JobPast, String> {
    let question = Question::Past(PastAfter {
        job: id.to_owned(),
        attempt,
        line,
        sample,
    });
    match ask_node(asking, node, &question)? {
        Answer::Past(past) => Ok(past),
        _ => Err(format!(
            "{node} answered a different question; update that node"
        )),
    }
}

/// Asks a node of the cluster about a job; a sentence where it does not answer.
pub(crate) fn ask_node(asking: &Asking, node: &str, question: &Question) -> Result<Answer, String> {
    if let Some((at, why)) = lock(&asking.others.silent).get(node)
        && at.elapsed() < SILENT_FOR
    {
        return Err(why.clone());
    }
    let row = asking.this.reader().object::<Node>(node);
    let Some(row) = row.map_err(|fault| JobsError::from(fault).words())? else {
        return Err(format!(
            "{node} is no longer a node of the cluster; the records that it wrote are still there"
        ));
    };
    let answer = reached::ask(asking, &reached::node(&row), question, WITHIN, &|| true);
    let mut silent = lock(&asking.others.silent);
    match answer {
        Ok(answer) => {
            silent.remove(node);
            Ok(answer)
        }
        Err(refusal) => {
            let why = match refusal.code.known() {
                // The asked node did not know that the asker belongs to its cluster.
                Some(code::UNSUPPORTED | code::NO_SUCH_JOB) => format!(
                    "{node} has an earlier version, which cannot answer; ask that node directly, or update it: {refusal}"
                ),
                _ => format!("{node} does not answer: {refusal}"),
            };
            silent.retain(|_, (at, _)| at.elapsed() < SILENT_FOR);
            silent.insert(node.to_owned(), (Instant::now(), why.clone()));
            Err(why)
        }
    }
}

/// The nodes that ran attempts of a job, the latest node first. Each has the number of its last attempt.
pub(crate) fn runners(reader: &Reader, id: &str) -> Result<Vec<(String, u32)>, JobsError> {
    let mut nodes: Vec<(String, u32)> = Vec::new();
    for attempt in reader.attempts(id)?.into_iter().rev() {
        if nodes.iter().all(|(node, _)| *node != attempt.node) {
            nodes.push((attempt.node, attempt.number));
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: i64, stages: usize) -> SampleView {
        SampleView {
            at: Timestamp(second * 1_000),
            attempt: 1,
            stages: (0..stages).map(|n| (format!("stage_{n}"), 0.5)).collect(),
            ..SampleView::default()
        }
    }

    #[test]
    fn the_samples_of_many_nodes_are_no_more_than_those_of_one() {
        let of_node = |node: &str| -> Vec<SampleView> {
            let samples = (0..1_000).map(|second| SampleView {
                node: Some(node.to_owned()),
                ..sample(second, 10)
            });
            samples.collect()
        };
        let bytes =
            |samples: &[SampleView]| -> usize { samples.iter().map(godwit_history::size).sum() };
        let most = bytes(&of_node("n1")) * 2 / 3;
        let mut joined = Joined::default();
        for node in ["n1", "n2", "n3"] {
            joined.add(of_node(node), most);
        }
        let all = joined.sorted();
        assert!((most / 2..=most).contains(&bytes(&all)), "{}", bytes(&all));
        assert!(all.is_sorted_by_key(|sample| sample.at));
        // The nodes have samples at the same times. Each has as many left.
        for node in ["n1", "n2", "n3"] {
            let of_node = all.iter().filter(|one| one.node.as_deref() == Some(node));
            assert_eq!(of_node.count(), 125, "{node}");
        }
    }

    #[test]
    fn samples_that_fit_stay_and_one_of_each_node_always_does() {
        let mut joined = Joined::default();
        let samples: Vec<SampleView> = (0..5).map(|second| sample(second, 1)).collect();
        joined.add(samples.clone(), 1 << 20);
        assert_eq!(joined.of_nodes, [samples]);
        joined.add(vec![sample(7, 1_000)], 1);
        joined.add(Vec::new(), 1);
        let seconds = joined.sorted().into_iter().map(|one| one.at.0 / 1_000);
        assert_eq!(seconds.collect::<Vec<_>>(), [4, 7]);
    }

    #[test]
    fn samples_are_remembered_up_to_a_number_of_bytes() {
        let mut remembered = Remembered::new();
        let mut keep = |job: &str, bytes| {
            let of = (job.to_owned(), "b1".to_owned());
            remember(&mut remembered, of.clone(), &[], bytes);
            remembered.contains_key(&of)
        };
        assert!(keep("long", SAMPLES_BYTES_MAX) && keep("longer", SAMPLES_BYTES_MAX));
        assert!(!keep("one more", 1));
        assert!(keep("nothing", 0));
    }
}
