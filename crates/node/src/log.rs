//! The log of a node: the form of its lines, as text or JSON, and which are written.
//! Keeps none: standard error goes where the service manager leads it.

use std::fmt;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::record::{TransferNews, TransferRecord, TransferRefusal, TransferStart};
use godwit_api::rest::{Bottleneck, Timestamp};
use godwit_api::settings::{LogFormat, LogLevel, ServeSettings};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use godwit_api::failure::{Failure, FailureCode};
use godwit_api::shown::printable;

use crate::outlet;

/// Writes the log as the settings want it from now on. No line waits for a reader.
///
/// # Errors
/// A thread could not be started.
pub(crate) fn begin(settings: &ServeSettings) -> Result<(), Failure> {
    outlet::begin(dropped).map_err(Failure::local)?;
    let level = match settings.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // Most messages of the libraries are of no use to an operator.
    let targets = Targets::new()
        .with_target(env!("CARGO_CRATE_NAME"), level)
        .with_default(LevelFilter::ERROR);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(|| Lines)
        .with_ansi(false)
        .with_target(false)
        .with_timer(Clock)
        // If standard error is gone, an error about it could not be read either.
        .log_internal_errors(false);
    // Fails only if there is a log already: one process runs one node.
    let registry = tracing_subscriber::registry();
    let _ = match settings.log_format {
        LogFormat::Text => registry.with(layer.with_filter(targets)).try_init(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true);
            registry.with(layer.with_filter(targets)).try_init()
        }
    };
    Ok(())
}

/// At every level of the log: a reader must know that the log has gaps.
fn dropped(lines: u64) {
    tracing::error!(
        lines,
        "the reader of the log was too slow, so {lines} lines were dropped here"
    );
}

/// Lines on their way to standard error. The library gives each in one piece.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        outlet::write_error(line.to_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line.
pub(crate) fn line(text: &str) {
    tracing::info!("{}", printable(text));
}

/// Writes a line about something that the operator should see to.
pub(crate) fn warn(text: &str) {
    tracing::warn!("{}", printable(text));
}

/// Writes the outcome of a transfer.
pub(crate) fn write_news(news: &TransferNews) {
    match news {
        TransferNews::Started(start) => started(start),
        TransferNews::Ended(record) => ended(record),
        TransferNews::Refused(refusal) => refused(refusal),
        // Strangers are counted. The data port decides which strangers get a line.
        TransferNews::Stranger(_) => {}
    }
}

fn started(start: &TransferStart) {
    tracing::info!(
        transfer = start.id.as_str(),
        job = start.job.as_deref(),
        identity = start.identity.as_deref(),
        user = start.owner.as_deref(),
        peer = start.peer.as_deref(),
        direction = start.direction.name(),
        places = start.places.join(", ").as_str(),
        label = start.label.as_deref(),
        request = start.request.as_deref(),
        "transfer started"
    );
}

fn ended(record: &TransferRecord) {
    let start = &record.start;
    macro_rules! at {
        ($level:expr) => {
            tracing::event!(
                $level,
                transfer = start.id.as_str(),
                job = start.job.as_deref(),
                identity = start.identity.as_deref(),
                user = start.owner.as_deref(),
                peer = start.peer.as_deref(),
                direction = start.direction.name(),
                places = start.places.join(", ").as_str(),
                label = start.label.as_deref(),
                request = start.request.as_deref(),
                bytes = record.bytes,
                files = record.files,
                failed = record.failed,
                seconds = record.seconds(),
                bytes_per_second = record.bytes_per_second.round(),
                streams = record.streams,
                bottleneck = record.bottleneck.map(Bottleneck::as_str),
                code = record.code.as_str(),
                reason = record.message.as_deref(),
                "transfer ended"
            )
        };
    }
    match record.code.known() {
        Some(FailureCode::Complete | FailureCode::Interrupted) => at!(Level::INFO),
        _ => at!(Level::WARN),
    }
}

fn refused(refusal: &TransferRefusal) {
    tracing::warn!(
        identity = refusal.identity.as_str(),
        peer = refusal.peer.as_str(),
        direction = refusal.direction.map(|direction| direction.name()),
        places = refusal.places.join(", ").as_str(),
        code = refusal.code.as_str(),
        fault = refusal.code.known().map(|code| code.culprit().as_str()),
        advice = refusal.code.known().map(FailureCode::advice),
        "refused: {}",
        printable(&refusal.message)
    );
}

/// The time as the API writes it.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        out.write_str(&now.rfc3339())
    }
}
