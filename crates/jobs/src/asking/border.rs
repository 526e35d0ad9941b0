//! Brings answers of other sites and nodes about a job within the bounds of this node's own texts.
//! Asks no node, and decides nothing about the job.
//!
//! The content of another site's answers is arbitrary. All answers pass here before an attempt reads them. So the state, the files and the
//! memory of this node hold no more of a job elsewhere than of a job here.

mod named_nodes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, GoOn, JobPast, JobSeen, Peer, Question, Refusal};
use godwit_api::event::Event;
use godwit_api::failure::{Code, FailureCode};
use godwit_api::grant::Mandate;
use godwit_api::grant::is_job_id;
use godwit_api::json::Shape;
use godwit_api::rest::{
    ChannelView, FailureGroup, LogLine, NodeProgress, ProgressView, SampleView, Timestamp,
};
use godwit_run::STAGE_FIGURES;
use godwit_state::Reason;
use serde_json::{Map, Value};

use crate::basis::cluster::IsMember;
use crate::basis::documents::summary_of_program;
use crate::basis::words::{clip, is_of_relay, is_plain_reason};
use named_nodes::{Named, NamedNodeAnswers};

/// The largest number of bytes or files that a site may report: 2⁵³, which is 8 PiB. A larger number counts as this one.
const AMOUNT_MAX: u64 = 1 << 53;

/// Most bytes of a code and of the name of a figure.
const WORD_BYTES_MAX: usize = 64;

/// Replaces a code that is malformed, or that only this node may give.
pub(crate) const OTHER: FailureCode = FailureCode::Other;

/// Figures of one sample of each kind: about twice as many as a node measures.
const FIGURES_MAX: usize = 64;

/// Network paths of one transfer, as many as HELLO allows.
const CHANNELS_MAX: usize = 64;

/// Nodes of a divided job: more than a cluster has.
const NODES_MAX: usize = 64;

/// The longest name, as in the state.
const NAME_BYTES_MAX: usize = 255;

/// Groups of failed entries. The state takes four more.
const GROUPS_MAX: usize = 60;

/// Paths that a group names.
const EXAMPLES_MAX: usize = 16;

/// Limit of the size of a summary: a hundred times the usual size. The state takes four times as much.
const SUMMARY_BYTES_MAX: usize = 64 << 10;

/// The longest line of a log: the beginning of a job with hundreds of sources fits.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Values of a line: twice those of the longest list of sources. A value takes up to 32 bytes in memory.
const LINE_VALUES_MAX: usize = 4_096;

/// Times of samples: from 1970 to 9999-12-31.
const TIMES: std::ops::Range<i64> = 0..253_402_214_400_000;

/// Wraps another asker, and lets only bounded answers of others through: all questions of this node go through it.
pub(crate) struct Bordered {
    sites: Arc<dyn AskSites>,
    is_member: Arc<IsMember>,
    asked: NamedNodeAnswers,
}

/// The source of an answer, for the names of the nodes in it.
#[derive(Clone, Copy)]
enum By<'a> {
    /// A node of this cluster: it names nodes of the cluster, and nodes that it has bounded itself.
    Member,
    /// A site, by its name here. It may name its own nodes as it likes, and names no nodes of other sites.
    Site(&'a str),
}

impl Bordered {
    pub(crate) fn new(sites: Arc<dyn AskSites>, is_member: Arc<IsMember>) -> Self {
        Self {
            sites,
            is_member,
            asked: NamedNodeAnswers::default(),
        }
    }

    fn source<'a>(&self, peer: &'a Peer) -> By<'a> {
        match (self.is_member)(&peer.identity) {
            Ok(true) => By::Member,
            _ => By::Site(&peer.name),
        }
    }
}

impl AskSites for Bordered {
    fn ask_for(
        &self,
        mandate: Option<&Mandate>,
        site: Option<&Peer>,
        question: &Question,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        let named = Named::of(mandate, site, question);
        if let Some(named) = &named {
            self.asked.begin(named, Instant::now())?;
        }
        let mut answer = self.sites.ask_for(mandate, site, question, go_on);
        if let Some(peer) = site {
            answer = of_node(answer, &|| self.source(peer));
        }
        if let Some(named) = &named {
            self.asked.end(named, &answer, Instant::now());
        }
        answer
    }

    fn reach(&self, site: &Peer, within: Duration) -> Result<(), Refusal> {
        self.sites.reach(site, within)
    }
}

/// Bounds the answer of another site about a job. The site has this name here.
pub(crate) fn of_site(site: &str, answer: Result<Answer, Refusal>) -> Result<Answer, Refusal> {
    let by = By::Site(site);
    let mut answer = of_node(answer, &|| by)?;
    if let Answer::Job(seen) = &mut answer {
        job(seen, by);
    }
    Ok(answer)
}

/// Bounds the answer of a node of the cluster, or of a site about its nodes.
fn of_node<'a>(
    answer: Result<Answer, Refusal>,
    by: &dyn Fn() -> By<'a>,
) -> Result<Answer, Refusal> {
    let mut answer = answer.map_err(|refusal| Refusal {
        code: word(&refusal.code),
        message: clip(&refusal.message),
        ..refusal
    })?;
    match &mut answer {
        Answer::Past(untrusted) => past(untrusted, by()),
        Answer::Host(untrusted) => figures(untrusted),
        _ => {}
    }
    Ok(answer)
}

/// The reason of another site, as the state takes it. Words for which this node alone is the source get another code.
pub(crate) fn reason(code: &Code, text: &str) -> Reason {
    let code = match is_plain_reason(code) || is_of_relay(code) {
        true => OTHER.into(),
        false => word(code),
    };
    Reason::new(code, clip(text))
}

fn word(code: &Code) -> Code {
    match is_word(code.as_str()) {
        true => code.clone(),
        false => OTHER.into(),
    }
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=WORD_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

fn job(seen: &mut JobSeen, by: By<'_>) {
    let view = &mut seen.view;
    if !is_job_id(&view.id) {
        OTHER.as_str().clone_into(&mut view.id);
    }
    view.reason = view.reason.take().map(|untrusted| Reason {
        code: word(&untrusted.code),
        text: clip(&untrusted.text),
    });
    view.summary = view.summary.take().and_then(summary);
    view.moved = view.moved.at_most(AMOUNT_MAX);
    if let Some(untrusted) = &mut view.progress {
        progress(untrusted, by);
    }
    seen.failures = groups(std::mem::take(&mut seen.failures));
}

/// Reduces a summary to its known fields, because many values take far more memory than their text. A long or incomplete
/// summary is reduced to its figures.
fn summary(untrusted: Value) -> Option<Value> {
    if !untrusted.is_object() {
        return None;
    }
    let known = summary_of_program(&untrusted);
    if let Some(known) = known.filter(|known| known.to_string().len() <= SUMMARY_BYTES_MAX) {
        return Some(known);
    }
    let fields = untrusted.as_object()?.iter();
    let figures = fields.filter(|(name, value)| is_word(name) && value.is_number());
    let figures = figures.take(FIGURES_MAX);
    Some(Value::Object(
        figures
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<_, _>>(),
    ))
}

fn groups(untrusted: Vec<FailureGroup>) -> Vec<FailureGroup> {
    let mut untrusted = untrusted.into_iter();
    let mut groups: Vec<FailureGroup> = untrusted
        .by_ref()
        .take(GROUPS_MAX - 1)
        .map(|mut group| {
            group.examples.truncate(EXAMPLES_MAX);
            FailureGroup {
                reason: Reason {
                    code: word(&group.reason.code),
                    text: clip(&group.reason.text),
                },
                count: group.count,
                examples: group.examples.iter().map(|path| clip(path)).collect(),
            }
        })
        .collect();
    let rest = untrusted.fold(0_u64, |sum, group| sum.saturating_add(group.count.max(1)));
    if rest > 0 {
        groups.push(FailureGroup {
            reason: Reason {
                code: OTHER.into(),
                text: "further reasons that the site names".to_owned(),
            },
            count: rest,
            examples: Vec::new(),
        });
    }
    groups
}

/// Progress is shown to every user, so text of another site is removed. Real amounts are below the bounds, and sums of bounded
/// figures do not overflow.
fn progress(untrusted: &mut ProgressView, by: By<'_>) {
    untrusted.moved = untrusted.moved.at_most(AMOUNT_MAX);
    untrusted.at = moment(untrusted.at);
    untrusted.bytes_total = untrusted.bytes_total.map(|bytes| bytes.min(AMOUNT_MAX));
    for amount in [
        &mut untrusted.bytes,
        &mut untrusted.files,
        &mut untrusted.files_total,
        &mut untrusted.files_settled,
        &mut untrusted.failed,
    ] {
        *amount = (*amount).min(AMOUNT_MAX);
    }
    // This node foretells the end itself.
    untrusted.forecast = None;
    untrusted.bottleneck_text = None;
    stages(&mut untrusted.stages);
    figures(&mut untrusted.host);
    figures(&mut untrusted.other_host);
    nodes(&mut untrusted.nodes, by);
    untrusted.channels.truncate(CHANNELS_MAX);
    untrusted.channels.iter_mut().for_each(ChannelView::unnamed);
}

/// The replacement of a node's name, counted from 1.
pub(crate) fn node_name(number: usize) -> String {
    format!("node {number}")
}

/// Nodes of another site have numbers: the site keeps their names to itself.
fn nodes(untrusted: &mut Vec<NodeProgress>, by: By<'_>) {
    untrusted.truncate(NODES_MAX);
    for (number, node) in (1..).zip(untrusted) {
        match by {
            By::Member => {
                if !is_name(&node.node) {
                    node.node = node_name(number);
                }
                if !is_name(&node.to) {
                    node.to.clear();
                }
            }
            By::Site(site) => {
                node.node = format!("{site} {}", node_name(number));
                node.to.clear();
            }
        }
        node.bottleneck_text = None;
        stages(&mut node.stages);
        figures(&mut node.host);
        figures(&mut node.other_host);
    }
}

/// Whether the state takes this name of a node.
fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// The figures that this program knows: a name would be a text of the other site.
fn stages(untrusted: &mut BTreeMap<String, f64>) {
    untrusted.retain(|name, _| STAGE_FIGURES.contains(&name.as_str()));
}

fn figures(untrusted: &mut BTreeMap<String, f64>) {
    untrusted.retain(|name, _| is_word(name));
    while untrusted.len() > FIGURES_MAX {
        untrusted.pop_last();
    }
}

fn past(untrusted: &mut JobPast, by: By<'_>) {
    untrusted.lines.iter_mut().for_each(line);
    untrusted
        .samples
        .retain(|sample| TIMES.contains(&sample.at.0));
    for SampleView {
        stages,
        host,
        other_host,
        site,
        node,
        nodes,
        ..
    } in &mut untrusted.samples
    {
        self::nodes(nodes, by);
        self::stages(stages);
        figures(host);
        figures(other_host);
        short(site);
        *node = None;
    }
}

fn short(name: &mut Option<String>) {
    *name = name.take().filter(|name| name.len() <= NAME_BYTES_MAX);
}

/// A time within [`TIMES`], so that spans between two times do not overflow.
fn moment(untrusted: Timestamp) -> Timestamp {
    Timestamp(untrusted.0.clamp(TIMES.start, TIMES.end))
}

fn line(untrusted: &mut LogLine) {
    untrusted.at = moment(untrusted.at);
    untrusted.node = None;
    untrusted.from = untrusted
        .from
        .take()
        .filter(|from| from.site.len() <= NAME_BYTES_MAX && is_job_id(&from.job));
    let text = untrusted.event.to_string();
    let bytes = text.len();
    let values = Shape::of(text.as_bytes()).values;
    if bytes > LINE_BYTES_MAX || values > LINE_VALUES_MAX || !untrusted.event.is_object() {
        let message = format!(
            "a log line of {bytes} bytes is left out here; the log at its site has the line"
        );
        // A note has plain fields only, so it always becomes JSON.
        untrusted.event = serde_json::to_value(Event::Note { message }).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
