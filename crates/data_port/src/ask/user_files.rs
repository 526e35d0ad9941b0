//! Answers questions to an agent about the files of its user: only those that `ls` needs. Restricts
//! nothing; the kernel does, by the rights of the user.

use godwit_api::ask::{Answer, GoOn, Question, Refusal, code};
use godwit_api::job::Text;
use godwit_proto::FaultCode;
use godwit_run::local::Access;

use super::here::Found;
use crate::Shared;
use crate::allow::Who;
use crate::places::{FailedSource, SourcePlace};

/// Answers a question.
pub(super) fn answer(
    shared: &Shared,
    who: &Who,
    question: &Question,
    go_on: &mut GoOn<'_>,
) -> Result<Answer, Refusal> {
    match question {
        Question::List(wish) => {
            let found = find(shared, who, &wish.path)?;
            shared.here.list(&found, wish, go_on)
        }
        Question::Stat { path } => find(shared, who, path)?.view().map(Answer::Entry),
        _ => Err(Refusal::new(
            code::UNSUPPORTED,
            "an agent lists files and answers nothing else; ask a node",
        )),
    }
}

fn find(shared: &Shared, who: &Who, path: &Text) -> Result<Found, Refusal> {
    let paths = std::slice::from_ref(&path.0);
    let found = shared.places.sources(who, paths, Access::default());
    match found.map_err(super::refusal)?.into_iter().next() {
        Some(SourcePlace::Tree(source)) => Ok(Found {
            storage: source.root.storage,
            export: shown(&source.absolute, source.root.start.as_bytes()),
            real: source.absolute,
            path: source.root.start,
            arrivals: None,
        }),
        Some(SourcePlace::Failed(FailedSource { fault, no })) => {
            let code = match fault.code {
                FaultCode::NOT_FOUND => code::NOT_FOUND,
                FaultCode::PERMISSION => code::PERMISSION,
                FaultCode::TYPE_CONFLICT => code::NOT_A_DIRECTORY,
                _ => code::IO,
            };
            Err(Refusal::new(code, no.message))
        }
        _ => Err(Refusal::new(code::INVALID, "this is no path of a file")),
    }
}

/// The storage's directory in messages: the path without its first slash.
fn shown(absolute: &[u8], start: &[u8]) -> String {
    let directory = match start {
        b"" => absolute,
        start => absolute
            .strip_suffix(start)
            .and_then(|above| above.strip_suffix(b"/"))
            .unwrap_or(absolute),
    };
    let directory = directory.strip_prefix(b"/").unwrap_or(directory);
    String::from_utf8_lossy(directory).into_owned()
}
