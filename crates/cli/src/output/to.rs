//! The destination that events are about, in a process with several destinations: its name in JSON lines and in lines for people.
//! Prints nothing itself.

use std::sync::Arc;

use godwit_api::event::Event;
use indicatif::{MultiProgress, ProgressDrawTarget};

/// One of several destinations.
#[derive(Clone)]
pub(crate) struct To {
    name: String,
    bars: MultiProgress,
    behind: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The end of a line about a destination that reads the source again.
pub(super) const BEHIND: &str = ", behind";

impl To {
    /// Destinations by their names as typed. `behind` says by its number whether a destination is behind.
    pub(crate) fn all(
        names: &[String],
        behind: &Arc<dyn Fn(usize) -> bool + Send + Sync>,
    ) -> Vec<Self> {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let names = names.iter().enumerate();
        let all = names.map(|(number, name)| {
            let behind = Arc::clone(behind);
            Self {
                name: name.clone(),
                bars: bars.clone(),
                behind: Arc::new(move || behind(number)),
            }
        });
        all.collect()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    pub(super) fn is_behind(&self) -> bool {
        (self.behind)()
    }
}

/// The event as one line of JSON. The fields of the destination come last.
pub(super) fn line(to: Option<&To>, event: &Event) -> String {
    let line = event.to_line();
    let (Some(to), Some(rest)) = (to, line.strip_suffix('}')) else {
        return line;
    };
    // A text always becomes JSON.
    let name = serde_json::to_string(&to.name).unwrap_or_default();
    let behind = match event {
        Event::Progress(_) if to.is_behind() => ",\"behind\":true",
        _ => "",
    };
    format!("{rest}{behind},\"each\":{name}}}")
}

/// Lines for people, each with the name of the destination.
pub(super) fn lines(to: Option<&To>, text: &str) -> String {
    let Some(to) = to else {
        return text.to_owned();
    };
    let lines = text.lines().map(|line| {
        let line = line.strip_prefix("godwit: ").unwrap_or(line);
        format!("{}: {line}", to.name)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_names_its_destination() {
        let names = ["a\"b".to_owned(), "c".to_owned()];
        let behind: Arc<dyn Fn(usize) -> bool + Send + Sync> = Arc::new(|number| number == 1);
        let all = To::all(&names, &behind);
        let note = Event::Note {
            message: "m".to_owned(),
        };
        assert_eq!(
            line(all.first(), &note),
            r#"{"event":"note","message":"m","each":"a\"b"}"#
        );
        let progress = Event::Progress(Default::default());
        assert!(!line(all.first(), &progress).contains("behind"));
        let line_of_c = line(all.last(), &progress);
        assert!(
            line_of_c.ends_with(r#","behind":true,"each":"c"}"#),
            "{line_of_c}"
        );
        assert_eq!(line(None, &note), note.to_line());
        assert_eq!(lines(all.last(), "godwit: x\ny"), "c: x\nc: y");
    }
}
