//! Draws the report of a job as one HTML file that fetches nothing.
//! Computes no figure.

mod axis;
mod figure;
mod plot;

use std::fmt::Write as _;

use super::hosts;
use godwit_api::energy::{self, UNREAD_FIGURE};
use godwit_api::event::Encryption;
use godwit_api::rest::{AttemptOutcome, Bottleneck, JobReport, Timestamp, own_place};
use godwit_api::shown::printable;
use godwit_api::units::{counted, human_rate, human_size};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1a1a1a;background:#fff}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #ddd;vertical-align:top}\
td.n,th.n{text-align:right}svg{width:100%;height:auto;background:#f6f6f6}polyline{fill:none;stroke-width:1.5}\
h3{font-size:1rem;margin:1.25rem 0 .25rem}svg text{font:9px system-ui,sans-serif;fill:#555}text.time{text-anchor:middle}text.value{text-anchor:end}\
line{stroke:#888;stroke-width:.7}line.grid{stroke:#ccc;stroke-width:.4}\
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(18rem,1fr));gap:.5rem 1.5rem}figure{margin:0 0 .5rem}\
figcaption{font-size:.85rem}svg.bars{width:5rem;height:1.25rem;background:none}svg.bars rect{fill:#0a5}\
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .8em}\
.why{padding:.5rem .75rem;background:#f6f6f6;border-left:4px solid #0a5}small{color:#555}\
@media(prefers-color-scheme:dark){body{color:#eee;background:#111}svg,.why{background:#222}th,td{border-color:#444}small{color:#aaa}svg text{fill:#bbb}line.grid{stroke:#444}}";

/// The report as one HTML file that fetches nothing.
#[must_use]
pub fn render(report: &JobReport) -> String {
    let mut page = String::new();
    // Writing to a text does not fail.
    let _ = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &JobReport) -> std::fmt::Result {
    let job = &report.job;
    let title = if job.label.is_empty() {
        job.id.clone()
    } else {
        format!("{} ({})", job.label, job.id)
    };
    write!(
        page,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Job {title}</title><style>{STYLE}</style><h1>Job {title}</h1>",
        title = escape(&title)
    )?;
    let state = format!("{:?}", job.state).to_lowercase();
    let why = job
        .reason
        .as_ref()
        .map_or("", |reason| reason.text.as_str());
    write!(
        page,
        "<p class=\"why\"><b>{state}</b> since {}. {}</p>",
        job.since.utc(),
        escape(why)
    )?;
    let summary = job.summary.as_ref();
    if summary.is_some_and(|summary| summary["dry_run"] == true) {
        page.push_str("<p class=\"why\">A dry run: nothing is changed.</p>");
    }
    for missing in &report.missing {
        let why = escape(&missing.why);
        write!(
            page,
            "<p class=\"why\">Log and figures of {} are missing: {why}</p>",
            escape(&missing.node)
        )?;
    }
    facts(page, report)?;
    destinations(page, report)?;
    let places = job.sources.iter().chain([&job.destination]);
    let places: Vec<&str> = places.map(String::as_str).collect();
    let found = hosts::all(&report.samples, &report.attempts, &places);
    plot::all(page, &report.samples, &found)?;
    nodes(page, report)?;
    distributions(page, report)?;
    attempts(page, report)?;
    failures(page, report)?;
    time_line(page, report)?;
    write!(
        page,
        "<p><small>Made {} by Godwit {}. Figures of the host are of the whole machine.</small></p></html>",
        report.made.utc(),
        env!("CARGO_PKG_VERSION")
    )
}

fn facts(page: &mut String, report: &JobReport) -> std::fmt::Result {
    let job = &report.job;
    let rate = if report.seconds_running > 0.0 {
        rate_text(super::float(report.bytes_moved) / report.seconds_running)
    } else {
        "–".to_owned()
    };
    let mut rows = vec![
        ("Sources", job.sources.join(", ")),
        ("Destination", job.destination.clone()),
        ("Owner", job.owner.clone()),
        ("Submitted", job.created.utc()),
        (
            "Ended",
            job.ended.map_or_else(|| "–".to_owned(), Timestamp::utc),
        ),
        ("Attempts", job.attempts.to_string()),
        ("Ran for", format!("{:.1} s", report.seconds_running)),
        (
            "Moved",
            format!("{}, {rate} on average", human_size(report.bytes_moved)),
        ),
    ];
    if report.bytes_again > 0 {
        rows.push(("Sent again", human_size(report.bytes_again)));
    }
    if let Some(review) = &report.forecast {
        rows.push(("Forecast", review.words()));
    }
    if let Some(joules) = report.joules_per_terabyte {
        rows.push((
            "Energy",
            format!("{joules:.0} J for each terabyte (processor packages)"),
        ));
    }
    let places: Vec<&str> = job
        .sources
        .iter()
        .chain([&job.destination])
        .map(String::as_str)
        .collect();
    for host in hosts::all(&report.samples, &report.attempts, &places) {
        let mut figures = host.figures.iter().flatten();
        if figures.any(|figures| figures.contains_key(UNREAD_FIGURE)) {
            rows.push(("Energy", energy::unread(&host.name)));
        }
    }
    if let Some(manifest) = job.summary.as_ref().map(|summary| &summary["manifest"])
        && let Some(digest) = manifest["digest"].as_str()
    {
        let entries = counted(manifest["entries"].as_u64().unwrap_or(0), "entry");
        let size = human_size(manifest["bytes"].as_u64().unwrap_or(0));
        rows.push(("Manifest", format!("{digest}, {entries}, {size}")));
    }
    if let Some(by) = job.summary.as_ref().and_then(Encryption::words_of) {
        rows.push(("Encryption", by));
    }
    if !report.bottlenecks.is_empty() {
        rows.push(("Limited by", report.limits_text()));
    }
    page.push_str("<table>");
    for (name, value) in rows {
        write!(page, "<tr><th>{name}<td>{}", escape(&value))?;
    }
    page.push_str("</table>");
    let settings: Vec<String> = report
        .description
        .settings
        .iter()
        .map(|(name, values)| {
            let values: Vec<String> = values
                .iter()
                .map(|value| String::from_utf8_lossy(&value.0).into_owned())
                .collect();
            format!("{name} = {}", values.join(", "))
        })
        .collect();
    if !settings.is_empty() {
        write!(page, "<p>Settings: {}</p>", escape(&settings.join("; ")))?;
    }
    Ok(())
}

/// The nodes that moved a divided job, and how evenly they shared the work.
fn nodes(page: &mut String, report: &JobReport) -> std::fmt::Result {
    if report.nodes.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Nodes</h2>");
    if let Some(even) = &report.evenness {
        write!(page, "<p>{}</p>", escape(&even.words()))?;
    }
    page.push_str("<table><tr><th>Node<th>First seen<th>Last seen<th class=n>Rate<th class=n>Share<th>Limited by<th>Interfaces");
    for node in &report.nodes {
        write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td class=n>{}<td class=n>{:.0} %<td>{}<td>{}",
            escape(&node.node),
            node.began.utc(),
            node.ended.utc(),
            rate_text(node.bytes_per_second),
            node.share * 100.0,
            node.bottleneck.map_or("–", Bottleneck::words),
            escape(&node.interfaces_text())
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

fn distributions(page: &mut String, report: &JobReport) -> std::fmt::Result {
    if report.figures.is_empty() {
        return Ok(());
    }
    page.push_str(
        "<h2>Figures</h2><table><tr><th>Figure<th class=n>least<th class=n>quartile<th class=n>median<th class=n>quartile<th class=n>greatest<th>distribution",
    );
    for (name, values) in &report.figures {
        write!(page, "<tr><td>{}", escape(&figure::title(name)))?;
        for value in [
            values.min,
            values.quartile1,
            values.median,
            values.quartile3,
            values.max,
        ] {
            write!(page, "<td class=n>{}", figure::text(name, value))?;
        }
        page.push_str("<td>");
        plot::histogram(page, &values.histogram)?;
    }
    page.push_str("</table>");
    Ok(())
}

fn attempts(page: &mut String, report: &JobReport) -> std::fmt::Result {
    page.push_str("<h2>Attempts</h2><table><tr><th>No.<th>Node<th>Began<th>Ended<th>Outcome<th class=n>Moved<th>Why");
    for attempt in &report.attempts {
        let ended = attempt.ended.map_or_else(|| "–".to_owned(), Timestamp::utc);
        let why = attempt
            .reason
            .as_ref()
            .map_or("", |reason| reason.text.as_str());
        write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{ended}<td>{}<td class=n>{}<td>{}",
            attempt.number,
            escape(&attempt.node),
            attempt.started.utc(),
            escape(outcome(attempt.outcome.as_ref())),
            human_size(attempt.bytes),
            escape(why)
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

/// The outcome of an attempt in words for people. The page of the node has the same words.
fn outcome(outcome: Option<&AttemptOutcome>) -> &str {
    match outcome {
        None => "runs",
        Some(AttemptOutcome::Backoff) => "failed, tried again later",
        Some(AttemptOutcome::Restart) => "ended with the node",
        Some(other) => other.as_str(),
    }
}

fn destinations(page: &mut String, report: &JobReport) -> std::fmt::Result {
    if report.destinations.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Destinations</h2>");
    if report.description.gather {
        write!(page, "<p>{}", report.description.merge.sentence())?;
    }
    page.push_str(
        "<table><tr><th>Place<th>Job<th>State<th class=n>Moved<th class=n>Files<th>Reason",
    );
    for job in &report.destinations {
        let why = job.reason.as_ref().map_or("", |reason| &reason.text);
        write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td class=n>{}<td class=n>{}<td>{}",
            escape(own_place(job, &report.destinations)),
            escape(&job.id),
            job.state.name(),
            human_size(job.moved.bytes),
            job.moved.files,
            escape(why)
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

fn failures(page: &mut String, report: &JobReport) -> std::fmt::Result {
    if report.failures.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Failed entries</h2><table><tr><th>Reason<th class=n>Entries<th>Examples");
    for group in &report.failures {
        write!(
            page,
            "<tr><td>{} <small>{}</small><td class=n>{}<td>{}",
            escape(&group.reason.text),
            escape(group.reason.code.as_str()),
            group.count,
            group
                .examples
                .iter()
                .map(|path| escape(path))
                .collect::<Vec<_>>()
                .join("<br>")
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

fn time_line(page: &mut String, report: &JobReport) -> std::fmt::Result {
    if report.time_line.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Time line</h2><table><tr><th>When<th class=n>Attempt<th>What");
    for line in &report.time_line {
        let event = &line.event;
        let name = event["event"].as_str().unwrap_or_default();
        let what = match name {
            "tuning" => format!(
                "{} from {} to {}: {}",
                event["what"].as_str().unwrap_or_default(),
                event["from"],
                event["to"],
                event["reason"].as_str().unwrap_or_default()
            ),
            "note" | "error" => event["message"].as_str().unwrap_or_default().to_owned(),
            "summary" => event["status"].as_str().unwrap_or_default().to_owned(),
            "connection_lost" => event["why"].as_str().unwrap_or_default().to_owned(),
            "connection_regained" => format!("after {} s", event["lost_seconds"]),
            "started" if event["resumed"] == true => "resumes an earlier run".to_owned(),
            _ => String::new(),
        };
        write!(
            page,
            "<tr><td>{}<td class=n>{}<td><b>{}</b> {}",
            line.at.utc(),
            line.attempt,
            escape(&name.replace('_', " ")),
            escape(&match &line.from {
                Some(from) => format!("at {}: {what}", from.site),
                None => what,
            })
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

fn rate_text(bytes_per_second: f64) -> String {
    human_rate(whole(bytes_per_second))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are not negative, and the cast holds at the greatest number"
)]
const fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// The text with nothing that HTML takes for markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in printable(text).chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            sign => escaped.push(sign),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_attempts_are_plain_words() {
        let words = |word| outcome(Some(&AttemptOutcome::of_word(word))).to_owned();
        assert_eq!(words("backoff"), "failed, tried again later");
        assert_eq!(words("complete"), "complete");
        assert_eq!(outcome(None), "runs");
    }

    #[test]
    fn nothing_of_a_name_becomes_markup() {
        assert_eq!(
            escape("<script>'a' & \"b\""),
            "&lt;script&gt;&#39;a&#39; &amp; &quot;b&quot;"
        );
    }

    #[test]
    fn nothing_of_a_name_steers_a_terminal_or_turns_the_text() {
        assert_eq!(
            escape("\x1b[2J\x07in\u{202e}gpj.exe"),
            "\\u{1b}[2J\\u{7}in\\u{202e}gpj.exe"
        );
    }
}
