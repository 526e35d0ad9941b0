//! Pushes the figures of `/metrics` to Graphite every ten seconds, in its plain text protocol.
//! Measures nothing. A receiver that is unreachable or slow blocks nothing: figures that it does not take in time are dropped.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use godwit_jobs::now;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::app::App;
use crate::server::stopped;

/// How often the figures are sent.
pub const PUSH_EVERY: Duration = Duration::from_secs(10);

/// Limit for name resolution, connection and figures together: less than the time between two pushes.
const PUSH_WITHIN: Duration = Duration::from_secs(5);

/// First part of each path, before the name of the machine.
const PREFIX: &str = "godwit";

/// Sends the figures to `HOST:PORT` until the server stops.
pub(crate) async fn run(
    app: Arc<App>,
    to: String,
    every: Duration,
    mut stopping: watch::Receiver<bool>,
) {
    let host = sanitized(&rustix::system::uname().nodename().to_string_lossy());
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut complained = false;
    loop {
        tokio::select! {
            _tick = ticks.tick() => {}
            () = stopped(&mut stopping) => return,
        }
        let pushed = tokio::select! {
            pushed = push(&app, &to, &host) => pushed,
            () = stopped(&mut stopping) => return,
        };
        match pushed {
            Ok(()) if complained => {
                (app.log)(&format!("{to} accepts the figures of this node again"));
                complained = false;
            }
            Err(why) if !complained => {
                (app.log)(&format!(
                    "{to} does not accept the figures of this node: {why}; new figures are sent every {} s",
                    every.as_secs()
                ));
                complained = true;
            }
            _ => {}
        }
    }
}

async fn push(app: &Arc<App>, to: &str, host: &str) -> Result<(), String> {
    let text = app
        .run(|app| app.metrics.text(app))
        .await
        .map_err(|error| format!("{}: the figures cannot be read", error.code()))?;
    let lines = lines(&text, host, now().0.div_euclid(1_000));
    let sent = async {
        let mut stream = TcpStream::connect(to).await?;
        stream.write_all(lines.as_bytes()).await?;
        stream.shutdown().await
    };
    match timeout(PUSH_WITHIN, sent).await {
        Ok(sent) => sent.map_err(|error| error.to_string()),
        Err(_late) => Err("no answer in time".to_owned()),
    }
}

/// OpenMetrics text as lines of Graphite: `godwit.HOST.NAME.LABEL.VALUE… FIGURE SECONDS`.
fn lines(text: &str, host: &str, seconds: i64) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, figure)) = split(line) else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let name = name.strip_prefix("godwit_").unwrap_or(name);
        let mut path = format!("{PREFIX}.{host}.{}", sanitized(name));
        for (label, value) in labels_of(labels.trim_end_matches('}')) {
            // Writing to a String cannot fail.
            let _ = write!(path, ".{}.{}", sanitized(&label), sanitized(&value));
        }
        let _ = writeln!(out, "{path} {figure} {seconds}");
    }
    out
}

/// The series and the figure of a line; None for one without a figure.
fn split(line: &str) -> Option<(&str, &str)> {
    let end = match line.rfind('}') {
        Some(brace) => brace + 1,
        None => line.find(' ')?,
    };
    let figure = line[end..].split_whitespace().next()?;
    figure
        .parse::<f64>()
        .ok()
        .filter(|figure| figure.is_finite())?;
    Some((&line[..end], figure))
}

/// Labels in the text between braces: `a="b",c="d"`.
fn labels_of(text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut signs = after.char_indices();
        let mut end = after.len();
        while let Some((at, sign)) = signs.next() {
            match sign {
                '\\' => value.extend(signs.next().map(|(_, sign)| sign)),
                '"' => {
                    end = at + 1;
                    break;
                }
                other => value.push(other),
            }
        }
        labels.push((name.to_owned(), value));
        rest = after[end..].trim_start_matches(',');
    }
    labels
}

/// A text as one part of a path. Separators become underscores.
fn sanitized(text: &str) -> String {
    let fits = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    let part: String = text
        .chars()
        .map(|sign| if fits(sign) { sign } else { '_' })
        .collect();
    match part.is_empty() {
        true => "_".to_owned(),
        false => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_paths_that_nothing_can_split() {
        let text = "# HELP godwit_jobs Jobs.\n\
                    godwit_jobs{state=\"queued\"} 3\n\
                    godwit_running_rate_bytes 12.5\n\
                    godwit_x_total{route=\"/api/v1/jobs/{id}\",peer=\"a b.c\\\"d\"} 7\n\
                    godwit_nan{a=\"\"} NaN\n\
                    # EOF\n";
        assert_eq!(
            lines(text, "dtn1", 1_800_000_000),
            "godwit.dtn1.jobs.state.queued 3 1800000000\n\
             godwit.dtn1.running_rate_bytes 12.5 1800000000\n\
             godwit.dtn1.x_total.route._api_v1_jobs__id_.peer.a_b_c_d 7 1800000000\n"
        );
    }
}
