//! Owns `docs/failures.md` and the table of the web page, which are generated from the catalogue of failures.
//! Reads and writes no file; a test compares both with the committed ones.

use std::fmt::Write;

use super::{FailureCode, Scope};

const HEAD: &str = "\
# Failures

<!-- Generated from the catalogue of failures: GODWIT_BLESS=1 cargo test --workspace --locked --test pages -->

Each failure has a code, a word that never changes. `--json` prints it, and messages for people end with the advice.
[The guide](guide.md#exit-codes) lists the exit codes.

| column | words |
| --- | --- |
| fault | `source`: the sending side; `destination`: the receiving side; `network`: the path between them; `peer`: the other side, whichever way data goes; `user`: the command; `this_machine`: the machine that reports it; `bug`: the program; `named_side`: the side named with the failed entry |
| retry | `transient`: the same may succeed later without any change; `permanent`: something must change first |
";

const TABLE: &str = "\
| code | exit | fault | retry | meaning | advice |
| --- | --- | --- | --- | --- | --- |
";

/// The page, in Markdown.
#[must_use]
pub fn page() -> String {
    let parts = [
        (
            Scope::Job,
            "Jobs and commands",
            "These failures end a whole job or command.",
        ),
        (
            Scope::Entry,
            "Entries",
            "These are failures of one entry; the transfer continues with the other entries. The command ends with exit code 3.",
        ),
        (
            Scope::Request,
            "Requests",
            "These codes refuse a request of a user, or a question of another node.",
        ),
        (
            Scope::Reason,
            "Reasons",
            "These codes say why a job is in its state.",
        ),
    ];
    let mut out = HEAD.to_owned();
    for (scope, title, text) in parts {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {title}\n\n{text}\n\n{TABLE}");
        for code in FailureCode::ALL.iter().filter(|code| code.scope() == scope) {
            let _ = writeln!(
                out,
                "| `{code}` | {} | `{}` | {} | {} | {} |",
                code.exit() as u8,
                code.culprit().as_str(),
                code.retry().as_str(),
                code.meaning(),
                code.advice(),
            );
        }
    }
    out
}

/// The table of the web page, in TypeScript: fault, retry and advice of each code.
#[must_use]
pub fn table() -> String {
    let mut out = String::from(
        "// Generated from the catalogue of failures: GODWIT_BLESS=1 cargo test --workspace --locked --test pages\n\n\
         /** Fault, retry and advice of each code. */\n\
         export const FAILURES: Record<string, readonly [fault: string, retry: string, advice: string]> = {\n",
    );
    for code in FailureCode::ALL {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "  {code}: ['{}', '{}', {:?}],",
            code.culprit().as_str(),
            code.retry().as_str(),
            code.advice(),
        );
    }
    out.push_str("};\n");
    out
}
