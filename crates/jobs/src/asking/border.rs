//! Brings answers of other sites and nodes about a job within the bounds of this node's own texts.
//! Asks no node, and decides nothing about the job.
//!
//! The content of another site's answers is arbitrary. All answers pass here before an attempt reads them. So the state, the files and the
//! memory of this node hold no more of a job elsewhere than of a job here.

mod asked;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, GoOn, JobPast, JobSeen, Peer, Question, Refusal};
use godwit_api::event::Event;
use godwit_api::failure::{Code, FailureCode};
use godwit_api::grant::Mandate;
use godwit_api::grant::is_job_id;
use godwit_api::rest::{
    ChannelView, FailureGroup, LogLine, MovedView, NodeProgress, ProgressView, SampleView,
    Timestamp,
};
use godwit_run::STAGE_FIGURES;
use godwit_state::Reason;
use serde_json::{Map, Value};

use crate::basis::words::{clip, is_plain_reason};
use asked::{Asked, Named};

/// The largest amount that a site is believed: 8 PiB, and as many files.
const AMOUNT_MAX: u64 = 1 << 53;

/// The longest code, and the longest name of a figure.
const WORD_BYTES_MAX: usize = 64;

/// Replaces a code that is malformed, or that only this node may give.
pub(crate) const OTHER: FailureCode = FailureCode::Other;

/// The stages that may limit a transfer.
const BOTTLENECKS: [&str; 6] = [
    "source storage",
    "source CPU",
    "network",
    "destination CPU",
    "destination storage",
    "limit",
];

/// Figures of one sample of each kind: about twice as many as a node measures.
const FIGURES_MAX: usize = 64;

/// Network paths of one transfer, as many as HELLO allows.
const CHANNELS_MAX: usize = 64;

/// Nodes of a divided job: more than a cluster has.
const NODES_MAX: usize = 64;

/// Groups of failed entries. The state takes four more.
const GROUPS_MAX: usize = 60;

/// Paths that a group names.
const EXAMPLES_MAX: usize = 16;

/// Limit of the size of a summary: a hundred times the usual size. The state takes four times as much.
const SUMMARY_BYTES_MAX: usize = 64 << 10;

/// The longest line of a log: the beginning of a job with hundreds of sources fits.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Times of samples: from 1970 to 9999-12-31.
const TIMES: std::ops::Range<i64> = 0..253_402_214_400_000;

/// Wraps another asker, and lets only bounded answers of others through: all questions of this node go through it.
pub(crate) struct Bordered {
    sites: Arc<dyn AskSites>,
    asked: Asked,
}

impl Bordered {
    pub(crate) fn new(sites: Arc<dyn AskSites>) -> Self {
        Self {
            sites,
            asked: Asked::default(),
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
        if site.is_some() {
            answer = of_node(answer);
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

/// Bounds the answer of another site about a job.
pub(crate) fn of_site(answer: Result<Answer, Refusal>) -> Result<Answer, Refusal> {
    let mut answer = of_node(answer)?;
    if let Answer::Job(seen) = &mut answer {
        job(seen);
    }
    Ok(answer)
}

/// Bounds the answer of a node of the cluster, or of a site about its nodes.
fn of_node(answer: Result<Answer, Refusal>) -> Result<Answer, Refusal> {
    let mut answer = answer.map_err(|refusal| Refusal {
        code: word(&refusal.code),
        message: clip(&refusal.message),
        ..refusal
    })?;
    match &mut answer {
        Answer::Past(told) => past(told),
        Answer::Host(told) => figures(told),
        _ => {}
    }
    Ok(answer)
}

/// The reason of another site, as the state takes it. Words for which this node alone is the source get another code.
pub(crate) fn reason(code: &Code, text: &str) -> Reason {
    let code = match is_plain_reason(code) {
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

fn job(seen: &mut JobSeen) {
    let view = &mut seen.view;
    if !is_job_id(&view.id) {
        OTHER.as_str().clone_into(&mut view.id);
    }
    view.reason = view.reason.take().map(|told| Reason {
        code: word(&told.code),
        text: clip(&told.text),
    });
    view.summary = view.summary.take().and_then(summary);
    view.moved = moved(view.moved);
    if let Some(told) = &mut view.progress {
        progress(told);
    }
    seen.failures = groups(std::mem::take(&mut seen.failures));
}

/// A summary is an object of a usual length; of a longer one the figures are left.
fn summary(told: Value) -> Option<Value> {
    if !told.is_object() {
        return None;
    }
    if told.to_string().len() <= SUMMARY_BYTES_MAX {
        return Some(told);
    }
    let fields = told.as_object()?.iter();
    let figures = fields.filter(|(name, value)| is_word(name) && value.is_number());
    let figures = figures.take(FIGURES_MAX);
    Some(Value::Object(
        figures
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<_, _>>(),
    ))
}

fn groups(told: Vec<FailureGroup>) -> Vec<FailureGroup> {
    let mut told = told.into_iter();
    let mut groups: Vec<FailureGroup> = told
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
    let rest = told.fold(0_u64, |sum, group| sum.saturating_add(group.count.max(1)));
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
fn moved(told: MovedView) -> MovedView {
    MovedView {
        bytes: told.bytes.min(AMOUNT_MAX),
        files: told.files.min(AMOUNT_MAX),
        bytes_again: told.bytes_again.min(AMOUNT_MAX),
    }
}

fn progress(told: &mut ProgressView) {
    told.moved = moved(told.moved);
    told.bytes = told.bytes.min(AMOUNT_MAX);
    told.files = told.files.min(AMOUNT_MAX);
    told.bottleneck_text = None;
    bottleneck(&mut told.bottleneck);
    stages(&mut told.stages);
    figures(&mut told.host);
    figures(&mut told.other_host);
    nodes(&mut told.nodes);
    told.channels.truncate(CHANNELS_MAX);
    told.channels.iter_mut().for_each(ChannelView::unnamed);
}

/// The replacement of a node's name, counted from 1.
pub(crate) fn node_name(number: usize) -> String {
    format!("node {number}")
}

/// Nodes have numbers: their names are texts of the other site.
fn nodes(told: &mut Vec<NodeProgress>) {
    told.truncate(NODES_MAX);
    for (number, node) in (1..).zip(told) {
        node.node = node_name(number);
        node.to.clear();
        node.bottleneck_text = None;
        bottleneck(&mut node.bottleneck);
        stages(&mut node.stages);
        figures(&mut node.host);
        figures(&mut node.other_host);
    }
}

fn bottleneck(told: &mut Option<String>) {
    *told = told
        .take()
        .filter(|stage| BOTTLENECKS.contains(&stage.as_str()));
}

/// The figures that this program knows: a name would be a text of the other site.
fn stages(told: &mut BTreeMap<String, f64>) {
    told.retain(|name, _| STAGE_FIGURES.contains(&name.as_str()));
}

fn figures(told: &mut BTreeMap<String, f64>) {
    told.retain(|name, _| is_word(name));
    while told.len() > FIGURES_MAX {
        told.pop_last();
    }
}

fn past(told: &mut JobPast) {
    told.lines.iter_mut().for_each(line);
    told.samples.retain(|sample| TIMES.contains(&sample.at.0));
    for SampleView {
        bottleneck: stage,
        stages,
        host,
        other_host,
        site,
        node,
        nodes,
        ..
    } in &mut told.samples
    {
        self::nodes(nodes);
        bottleneck(stage);
        self::stages(stages);
        figures(host);
        figures(other_host);
        short(site);
        *node = None;
    }
}

fn short(name: &mut Option<String>) {
    *name = name.take().filter(|name| name.len() <= 255);
}

fn line(told: &mut LogLine) {
    told.at = Timestamp(told.at.0.clamp(TIMES.start, TIMES.end));
    told.node = None;
    told.from = told
        .from
        .take()
        .filter(|from| from.site.len() <= 255 && is_job_id(&from.job));
    let bytes = told.event.to_string().len();
    if bytes > LINE_BYTES_MAX || !told.event.is_object() {
        let message = format!(
            "a log line of {bytes} bytes is left out here; the log at its site has the line"
        );
        // A note has plain fields only, so it always becomes JSON.
        told.event = serde_json::to_value(Event::Note { message }).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_are_those_of_the_program() {
        use godwit_engine::Bottleneck as Stage;
        let stages = [
            Stage::SourceStorage,
            Stage::SourceCpu,
            Stage::Network,
            Stage::DestinationCpu,
            Stage::DestinationStorage,
            Stage::Limit,
        ];
        assert_eq!(stages.map(Stage::as_str), BOTTLENECKS);
    }

    #[test]
    fn groups_beyond_the_bound_are_counted_under_one() {
        let group = |n: u64| FailureGroup {
            reason: Reason {
                code: Code::of_word(&format!("c{n}")),
                text: "x".to_owned(),
            },
            count: n,
            examples: vec!["x".repeat(10_000); 100],
        };
        let told = groups((1..=100).map(group).collect());
        assert_eq!(told.len(), GROUPS_MAX);
        assert_eq!(told.iter().map(|group| group.count).sum::<u64>(), 5_050);
        assert!(
            told.iter()
                .all(|group| group.examples.len() <= EXAMPLES_MAX)
        );
        assert_eq!(groups((1..=59).map(group).collect()).len(), 59);
    }

    #[test]
    fn codes_of_this_node_alone_are_not_taken_from_others() {
        for (told, taken) in [
            ("permission", "permission"),
            ("of_a_newer_version", "of_a_newer_version"),
            ("node_lost", "other"),
            ("complete", "other"),
            ("a\nb", "other"),
            ("", "other"),
            (&"x".repeat(65), "other"),
        ] {
            let code = reason(&Code::of_word(told), "").code;
            assert_eq!(code.as_str(), taken);
        }
    }

    #[test]
    fn a_refusal_has_a_word_and_a_text_that_the_state_takes() {
        let told = of_site(Err(Refusal {
            code: Code::of_word("a\nb"),
            ..Refusal::new(OTHER, "x".repeat(1 << 20))
        }));
        let told = told.expect_err("refused");
        assert_eq!(told.code, OTHER);
        assert!(told.message.len() < 4_352);
    }

    #[test]
    fn a_long_summary_keeps_its_figures() {
        let told = serde_json::json!({"bytes": 7, "words": "x".repeat(SUMMARY_BYTES_MAX)});
        assert_eq!(summary(told), Some(serde_json::json!({"bytes": 7})));
        assert_eq!(summary(serde_json::json!("words")), None);
    }
}
