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
use godwit_state::{Node, Reader};

use crate::asking::{Asking, reached};
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;
use godwit_history::{NO_LINES, NO_SAMPLES};

/// Numbers of the lines of one attempt.
const LINES_OF_ATTEMPT: u64 = 1 << 32;

/// How long a node may take to answer.
const WITHIN: Duration = Duration::from_secs(3);

/// A node that did not answer is asked again after this time: a reader of a log does not wait for it each time.
const SILENT_FOR: Duration = Duration::from_secs(5);

/// Limit of questions for one log or for the samples of one node, enough for the longest files that a node allows.
const QUESTIONS_MAX: usize = 100;

/// Jobs and nodes whose samples are remembered, and for how long: a page reads them every few seconds.
const REMEMBERED_MAX: usize = 16;
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// More samples than a node keeps: it has thinned them out since.
const SAMPLES_MAX: usize = 4_096;

/// Samples of a job from another node, and when they came.
struct KeptSamples {
    at: Instant,
    samples: Vec<SampleView>,
}

/// Answers of other nodes about their records.
#[derive(Default)]
pub(crate) struct Others {
    silent: Mutex<HashMap<String, (Instant, String)>>,
    told: Mutex<HashMap<(String, String), KeptSamples>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Attempts that one node ran one after the other.
struct Run {
    node: String,
    first: u32,
    last: u32,
}

/// The runs of attempts of a job by node, the first one first; None for a node that is alone with all of them.
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

/// Lines of the log after number `after`, at most `limit`, from all nodes that can be reached.
pub(crate) fn log(
    asking: &Asking,
    id: &str,
    after: u64,
    limit: usize,
) -> Result<LogPage, JobsError> {
    let Some(runs) = runs(&asking.this, id)? else {
        return Ok(godwit_history::read_log(
            &asking.this.directory,
            id,
            after,
            limit,
        )?);
    };
    let from = u32::try_from(after / LINES_OF_ATTEMPT).unwrap_or(u32::MAX);
    let from = from.saturating_add(1);
    let mut page = LogPage {
        next: after,
        ..LogPage::default()
    };
    for run in runs.iter().filter(|run| run.last >= from) {
        let wanted = limit - page.lines.len();
        if wanted == 0 {
            break;
        }
        let first = run.first.max(from);
        let line = match run.first <= from {
            true => after % LINES_OF_ATTEMPT,
            false => 0,
        };
        match lines(asking, id, run, first, line, wanted)? {
            Ok(lines) => page.lines.extend(lines),
            Err(why) => miss(&mut page.missing, &run.node, why),
        }
    }
    page.next = page.lines.last().map_or(after, |line| line.seq);
    Ok(page)
}

fn miss(missing: &mut Vec<MissingNode>, node: &str, why: String) {
    if missing.iter().all(|missing| missing.node != node) {
        missing.push(MissingNode {
            node: node.to_owned(),
            why,
        });
    }
}

/// Lines of the attempts of a run from `first` on, after the node's own number `after`; a sentence if the node does not answer.
fn lines(
    asking: &Asking,
    id: &str,
    run: &Run,
    first: u32,
    mut after: u64,
    limit: usize,
) -> Result<Result<Vec<LogLine>, String>, JobsError> {
    let is_own = run.node == asking.this.name;
    let mut found = Vec::new();
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
        found.extend(lines.map(|line| LogLine {
            seq: u64::from(line.attempt.saturating_sub(1)) * LINES_OF_ATTEMPT
                + line.seq % LINES_OF_ATTEMPT,
            node: (!is_own).then(|| run.node.clone()),
            ..line
        }));
        if found.len() >= limit || !more {
            break;
        }
    }
    found.truncate(limit);
    Ok(Ok(found))
}

/// The samples of a job, the oldest first, and the nodes that did not send theirs.
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
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    for node in nodes {
        if node == asking.this.name {
            all.extend(own()?);
            continue;
        }
        match told_samples(asking, id, &node) {
            Ok(samples) => all.extend(samples.into_iter().map(|sample| SampleView {
                node: Some(node.clone()),
                ..sample
            })),
            Err(why) => miss(&mut missing, &node, why),
        }
    }
    all.sort_by_key(|sample| (sample.attempt, sample.at));
    Ok((all, missing))
}

/// The samples that another node keeps: those that are remembered, and the new ones.
fn told_samples(asking: &Asking, id: &str, node: &str) -> Result<Vec<SampleView>, String> {
    let key = (id.to_owned(), node.to_owned());
    let known = lock(&asking.others.told).remove(&key);
    let known = known.filter(|told| told.at.elapsed() < REMEMBERED_FOR);
    let known = known.filter(|told| told.samples.len() < SAMPLES_MAX);
    let mut samples = known.map_or_else(Vec::new, |told| told.samples);
    for _ in 0..QUESTIONS_MAX {
        let after = samples.last().map_or(Timestamp(0), |sample| sample.at);
        let past = ask(asking, node, id, 0, NO_LINES, after)?;
        let more = past.more && !past.samples.is_empty();
        samples.extend(past.samples.into_iter().filter(|sample| sample.at > after));
        if !more || samples.len() >= SAMPLES_MAX {
            break;
        }
    }
    let mut told = lock(&asking.others.told);
    told.retain(|_, told| told.at.elapsed() < REMEMBERED_FOR);
    if told.len() < REMEMBERED_MAX {
        let samples = samples.clone();
        let at = Instant::now();
        told.insert(key, KeptSamples { at, samples });
    }
    Ok(samples)
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
    let Some(row) = row.map_err(|fault| fault.to_string())? else {
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
                // The asked node did not know that the asker is of its cluster.
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

/// The nodes that ran attempts of a job, the last one first, with the number of the last attempt of each.
pub(crate) fn runners(reader: &Reader, id: &str) -> Result<Vec<(String, u32)>, JobsError> {
    let mut nodes: Vec<(String, u32)> = Vec::new();
    for attempt in reader.attempts(id)?.into_iter().rev() {
        if nodes.iter().all(|(node, _)| *node != attempt.node) {
            nodes.push((attempt.node, attempt.number));
        }
    }
    Ok(nodes)
}
