//! Owns the test that this program accepts the commands in the documents.
//! Runs none of them; placeholders may stand for values.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use godwit_api::settings::{ConfigFile, Scope, resolve};

/// Documents outside `docs`.
const DOCUMENTS: [&str; 1] = ["README.md"];

/// A command of a document: the words after a prompt, and its line.
struct Command {
    at: String,
    words: Vec<String>,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found: Vec<PathBuf> = DOCUMENTS.iter().map(|name| root.join(name)).collect();
    let mut open = vec![root.join("docs")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The numbered lines of a document inside code blocks, or all others.
fn lines(text: &str, in_code: bool) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if (is_fenced || line.starts_with("    ")) == in_code {
            found.push((index + 1, line.trim_start()));
        }
    }
    found
}

/// The commands of this program in a shell line, each as its words. Quotes join words; redirections are left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        let end = match (quote, sign) {
            (Some(open), sign) if sign == open => {
                quote = None;
                continue;
            }
            (Some(_), _) => false,
            (None, '\'' | '"') => {
                quote = Some(sign);
                word.get_or_insert_default();
                continue;
            }
            (None, '#') if word.is_none() => break,
            (None, sign) => sign.is_whitespace() || "|;&()<>".contains(sign),
        };
        if !end {
            word.get_or_insert_default().push(sign);
            continue;
        }
        let command = commands.last_mut().expect("one");
        // `2` before a redirection names a descriptor and is no argument.
        let is_descriptor = "<>".contains(sign) && word.as_deref() == Some("2");
        command.extend(word.take().filter(|_| !is_descriptor));
        match sign {
            '|' | ';' | '&' | '(' | ')' => commands.push(Vec::new()),
            // The file of a redirection is no word either.
            '<' | '>' => {
                while signs.next_if(|next| " <>&".contains(*next)).is_some() {}
                while signs.next_if(|next| !" |;)".contains(*next)).is_some() {}
            }
            _ => {}
        }
    }
    commands.last_mut().expect("one").extend(word);
    commands.retain(|words| words.first().is_some_and(|first| first == "godwit"));
    commands
}

fn documented(in_code: bool) -> Vec<Command> {
    let mut found = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        for (number, line) in lines(&text, in_code) {
            let spans: Vec<&str> = match in_code {
                true => vec![line],
                false => line.split('`').skip(1).step_by(2).collect(),
            };
            for words in spans.into_iter().flat_map(commands) {
                let at = format!("{}:{number}", path.display());
                found.push(Command { at, words });
            }
        }
    }
    found
}

/// Parses the values of the settings, too.
fn check(matches: &ArgMatches) -> Result<(), String> {
    let Some((name, matches)) = matches.subcommand() else {
        return Ok(());
    };
    let Some(scope) = Scope::ALL.into_iter().find(|scope| scope.name() == name) else {
        return Ok(());
    };
    let typed = super::typed(scope, matches);
    let none = |_: &str| -> Option<OsString> { None };
    resolve(scope, &typed, &none, &ConfigFile::default())
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn every_command_in_a_code_block_is_accepted() {
    let found = documented(true);
    assert!(found.len() > 200, "only {} commands", found.len());
    let mut refused = Vec::new();
    for Command { at, words } in found {
        let parsed = super::quick()
            .try_get_matches_from(&words)
            .map_err(|error| error.to_string())
            .and_then(|matches| check(&matches));
        if let Err(error) = parsed {
            refused.push(format!("{at}: {}\n{error}", words.join(" ")));
        }
    }
    assert!(refused.is_empty(), "\n{}", refused.join("\n"));
}

/// In a sentence a command may lack its arguments, as `godwit trust`, and a flag its value.
#[test]
fn every_command_in_a_sentence_is_known() {
    let mut refused = Vec::new();
    for Command { at, words } in documented(false) {
        let Err(error) = super::quick().try_get_matches_from(&words) else {
            continue;
        };
        let is_named_only = [
            ErrorKind::MissingRequiredArgument,
            ErrorKind::MissingSubcommand,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ErrorKind::TooFewValues,
            ErrorKind::DisplayHelp,
            ErrorKind::DisplayVersion,
        ];
        let value = error.get(ContextKind::InvalidValue);
        let lacks_value = matches!(value, Some(ContextValue::String(value)) if value.is_empty());
        let is_any = words.get(1).is_some_and(|word| word == "help");
        if !is_named_only.contains(&error.kind()) && !lacks_value && !is_any {
            refused.push(format!("{at}: {}\n{error}", words.join(" ")));
        }
    }
    assert!(refused.is_empty(), "\n{}", refused.join("\n"));
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    let one = |line: &str| commands(line).first().map(|words| words.join("|"));
    let is = |line: &str, words: &str| assert_eq!(one(line).as_deref(), Some(words), "{line}");
    is("godwit id   # who", "godwit|id");
    is("godwit id > file 2>&1", "godwit|id");
    is(
        "find a | godwit cp '*.h 5' \"b c\" d",
        "godwit|cp|*.h 5|b c|d",
    );
    is("(umask 077; godwit id >file)", "godwit|id");
    assert_eq!(one("until godwit id; do true; done"), None);
    assert_eq!(commands("godwit id; godwit man").len(), 2);
}
