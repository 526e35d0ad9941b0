//! The state of this process's transfer for other commands, and the wishes of these commands.
//! Changes nothing itself: the control of the job does.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use godwit_api::event::{ConnectionLost, Event, EventSink, Started};
use godwit_run::{Control, Unconfirmed};

use super::listener::Listener;
use super::{CONFIRM_DEADLINE, Question, TransferStatus, read_line, write_line};
use crate::home::Home;
use crate::output::lost_time;

/// Most sources in an answer: enough to recognise a transfer, and few enough for one line.
const SOURCES_TOLD_MAX: usize = 16;

/// Announces the transfer of this process to other commands of its user, and passes all events on.
pub(crate) struct Steered {
    events: Arc<dyn EventSink>,
    home: Home,
    shared: Arc<Shared>,
    number: Option<usize>,
    listener: Mutex<Option<Listener>>,
}

struct Shared {
    control: Control,
    running: Mutex<TransferStatus>,
    /// Time since which the other end is out of reach, and whether connections are open nevertheless.
    lost: Mutex<Option<(Instant, bool)>>,
}

impl Steered {
    pub(crate) fn new(events: Arc<dyn EventSink>, home: &Home, control: &Control) -> Self {
        Self {
            events,
            home: home.clone(),
            shared: Arc::new(Shared {
                control: control.clone(),
                running: Mutex::default(),
                lost: Mutex::default(),
            }),
            number: None,
            listener: Mutex::default(),
        }
    }

    /// The process has several transfers, and this is the one with `number`.
    pub(crate) fn numbered(self, number: usize) -> Self {
        Self {
            number: Some(number),
            ..self
        }
    }

    /// The transfer begins, perhaps again.
    fn begin(&self, started: &Started) -> Result<(), String> {
        {
            let mut running = self.shared.lock();
            let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
            running.transfer.clone_from(&started.transfer);
            running.pid = std::process::id();
            let reported = started.sources.iter().take(SOURCES_TOLD_MAX);
            running.sources = reported.map(text).collect();
            if let Some(more) = started.sources.len().checked_sub(SOURCES_TOLD_MAX + 1) {
                running.sources.push(format!("and {} more", more + 1));
            }
            running.destination = text(&started.destination);
        }
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_none() {
            let shared = Arc::clone(&self.shared);
            let directory = self.home.running().map_err(|failure| failure.message)?;
            let started =
                Listener::start(&directory, self.number, move |socket| shared.answer(socket))
                    .map_err(|error| format!("{}: {error}", directory.display()))?;
            *listener = Some(started);
        }
        Ok(())
    }
}

impl EventSink for Steered {
    fn emit(&self, event: Event) {
        let begun = match &event {
            Event::Started(started) => Some(started.clone()),
            Event::ConnectionLost(lost) if lost.channel.is_none() => {
                self.shared.note_lost(Some(lost));
                None
            }
            Event::ConnectionRegained(regained) if regained.channel.is_none() => {
                self.shared.note_lost(None);
                None
            }
            _ => None,
        };
        self.events.emit(event);
        if let Some(started) = begun
            && let Err(message) = self.begin(&started)
        {
            self.events.note(&format!(
                "godwit limit will not find this transfer: {message}"
            ));
        }
    }
}

impl Shared {
    fn note_lost(&self, event: Option<&ConnectionLost>) {
        let lost = event.map(|event| {
            let now = Instant::now();
            let since = now.checked_sub(lost_time(event.lost_seconds));
            (since.unwrap_or(now), event.silent)
        });
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = lost;
    }

    fn answer(&self, mut socket: UnixStream) {
        // A nonsensical question, or a client that is gone, gets no answer.
        if let Ok(question) = read_line::<Question>(&socket) {
            let error = question.limit.and_then(|limit| self.set_limit(limit));
            let figures = self.control.figures();
            let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = TransferStatus {
                limit: figures.limit,
                bytes: figures.bytes,
                lost_seconds: lost.map(|(since, _)| since.elapsed().as_secs_f64().round()),
                silent: lost.is_some_and(|(_, silent)| silent),
                error,
                ..self.lock().clone()
            };
            let _ = write_line(&mut socket, &answer);
        }
    }

    /// Waits until the sending end confirms the limit; returns the reason if it does not.
    fn set_limit(&self, limit: u64) -> Option<String> {
        let unconfirmed = self.control.confirm_limit(limit, CONFIRM_DEADLINE).err()?;
        Some(match unconfirmed {
            Unconfirmed::Over => "the transfer has ended".to_owned(),
            Unconfirmed::Overridden => {
                "another command has set a different limit meanwhile".to_owned()
            }
            Unconfirmed::Late => format!(
                "the sending side has not confirmed the limit within {} s: there is no connection now, or its version is too old to change a limit; godwit asks again once there is a connection",
                CONFIRM_DEADLINE.as_secs()
            ),
        })
    }

    fn lock(&self) -> MutexGuard<'_, TransferStatus> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
