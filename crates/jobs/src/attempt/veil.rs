//! Owns the replacement of the node's home in texts of a job: a job is a user's, and paths of the machine are for admins.
//! The node's log and its records keep the paths.

use std::path::Path;

use godwit_api::event::{ErrorTold, Event};

/// Entries of a home that messages of failures may name.
const IN_HOME: [&str; 5] = ["journals", "jobs", "spill", "state", "identity.pem"];

/// The text with `GODWIT_HOME` in place of the parent directory of the jobs.
pub(crate) fn without_home(jobs: &Path, text: &str) -> String {
    let Some(home) = jobs.parent().filter(|home| home.parent().is_some()) else {
        return text.to_owned();
    };
    IN_HOME.iter().fold(text.to_owned(), |text, name| {
        let path = home.join(name);
        text.replace(&*path.to_string_lossy(), &format!("GODWIT_HOME/{name}"))
    })
}

/// The same for the message of an event that concerns no entry.
pub(super) fn hide_home(jobs: &Path, event: &mut Event) {
    if let Event::Error(ErrorTold { message, .. }) | Event::Note { message } = event {
        *message = without_home(jobs, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_damaged_journal_names_the_home_by_its_variable() {
        let mut note = Event::Note {
            message: "journal /data/journals/x.journal: cut".to_owned(),
        };
        hide_home(Path::new("/data/jobs"), &mut note);
        let Event::Note { message } = note else {
            panic!("another event");
        };
        assert_eq!(message, "journal GODWIT_HOME/journals/x.journal: cut");
    }

    #[test]
    fn a_failure_names_the_home_by_its_variable_and_exports_as_they_are() {
        let jobs = Path::new("/data/jobs");
        for (text, left) in [
            ("/data/journals: no space", "GODWIT_HOME/journals: no space"),
            (
                "/data/jobs/x/manifest: no",
                "GODWIT_HOME/jobs/x/manifest: no",
            ),
            // An export of that name.
            ("/data/f: does not exist", "/data/f: does not exist"),
        ] {
            assert_eq!(without_home(jobs, text), left);
        }
        assert_eq!(without_home(Path::new("/jobs"), "/jobs: no"), "/jobs: no");
    }
}
