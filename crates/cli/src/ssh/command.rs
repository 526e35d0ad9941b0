//! The command line of ssh: the user's program and options, the machine, and the remote command.
//! Runs nothing. The command line never has a secret.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_api::login::Login;

use crate::exit::{Failure, FailureCode};

/// Runs commands on another machine.
#[derive(Clone, Debug)]
pub(crate) struct Rsh {
    /// The program, then its own options.
    words: Vec<OsString>,
    /// The name of this program on the other machine, for the shell there.
    remote_command: OsString,
    /// The user cannot answer a question.
    unattended: bool,
    /// The program there is the one that this program carried.
    carried: Arc<AtomicBool>,
}

/// The usual name of this program.
const USUAL: &str = "godwit";

/// Where this program carries itself to. Each usual shell expands the tilde. A relative path would lead away from the home if the
/// start of the shell changes the directory, and another user may have put a program there.
pub(super) const CARRIED: &str = concat!("~/.cache/godwit/", env!("CARGO_PKG_VERSION"), "/godwit");

impl Rsh {
    /// Splits the settings, and checks that the program exists.
    pub(crate) fn new(rsh: &OsStr, remote_command: &OsStr) -> Result<Self, Failure> {
        let words = split(rsh).ok_or_else(|| {
            Failure::usage(format!(
                "--rsh {}: the value is empty, or a quote is not closed",
                rsh.display()
            ))
        })?;
        let program = Path::new(&words[0]);
        if find(program, std::env::var_os("PATH").as_deref()).is_none() {
            return Err(Failure::new(
                FailureCode::SshFailed,
                format!(
                    "{} is not installed here: install OpenSSH's client, or name another program with --rsh",
                    program.display()
                ),
            ));
        }
        Ok(Self {
            words,
            remote_command: remote_command.to_owned(),
            unattended: !has_terminal() && std::env::var_os("SSH_ASKPASS").is_none(),
            carried: Arc::default(),
        })
    }

    /// Program and arguments that run this program on the other machine with `arguments`.
    pub(crate) fn line(&self, login: &Login, arguments: &str) -> Vec<OsString> {
        let mut command = match self.carried.load(Ordering::Relaxed) {
            true => CARRIED.into(),
            false => self.remote_command.clone(),
        };
        command.push(" ");
        command.push(arguments);
        self.line_of(login, command)
    }

    /// Program and arguments that run a command on the other machine.
    pub(super) fn line_of(&self, login: &Login, command: OsString) -> Vec<OsString> {
        let mut line = self.words.clone();
        if Path::new(&self.words[0]).file_name() == Some(OsStr::new("ssh")) {
            line.push("-T".into());
            if self.unattended {
                line.extend(["-o".into(), "BatchMode=yes".into()]);
            }
        }
        if let Some(user) = &login.user {
            line.extend(["-l".into(), user.into()]);
        }
        line.push(login.host.clone().into());
        line.push(command);
        line
    }

    /// Whether the user has not said where this program is on the other machine.
    pub(super) fn is_usual(&self) -> bool {
        self.remote_command == USUAL && !self.carried.load(Ordering::Relaxed)
    }

    /// From now on the program there is the carried one, or again the usual one.
    pub(super) fn set_carried(&self, carried: bool) {
        self.carried.store(carried, Ordering::Relaxed);
    }

    /// Whether the user cannot answer a question of ssh.
    pub(crate) fn is_unattended(&self) -> bool {
        self.unattended
    }

    /// The name of this program on the other machine.
    pub(crate) fn remote_command(&self) -> String {
        self.remote_command.to_string_lossy().into_owned()
    }
}

fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// Splits text into words as a shell does, with quotes and backslashes only; `None` if a quote stays open or there is no word.
fn split(text: &OsStr) -> Option<Vec<OsString>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, b' ' | b'\t' | b'\n') => words.extend(word.take()),
            (None | Some(b'"'), b'\\') => word.get_or_insert_default().push(bytes.next()?),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
    (quote.is_none() && words.first().is_some_and(|first| !first.is_empty())).then_some(words)
}

/// Finds a program as a shell does.
fn find(program: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return program.is_file().then(|| program.to_owned());
    }
    std::env::split_paths(path?)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Vec<String>> {
        let words = split(OsStr::new(text))?;
        Some(
            words
                .into_iter()
                .map(|word| word.into_string().expect("text"))
                .collect(),
        )
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, expected) in [
            ("ssh", vec!["ssh"]),
            (" ssh  -p 22 ", vec!["ssh", "-p", "22"]),
            (
                "ssh -i '/my keys/a' -o \"User x\"",
                vec!["ssh", "-i", "/my keys/a", "-o", "User x"],
            ),
            (r"ssh a\ b '' 'c\d'", vec!["ssh", "a b", "", r"c\d"]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(words(text), Some(expected), "{text}");
        }
        for text in ["", "  ", "ssh 'a", "ssh \\", "''"] {
            assert_eq!(words(text), None, "{text}");
        }
    }

    #[test]
    fn the_carried_program_is_in_the_home_wherever_the_login_begins() {
        let rsh = Rsh::new(OsStr::new("sh"), OsStr::new(USUAL)).expect("there");
        let login = Login {
            user: None,
            host: "far".into(),
        };
        rsh.set_carried(true);
        let line = rsh.line(&login, "agent --stdio");
        let command = line.last().and_then(|word| word.to_str()).expect("text");
        assert!(command.starts_with("~/.cache/"), "{command}");
    }

    #[test]
    fn the_machine_and_the_command_come_last() {
        let rsh = Rsh {
            words: vec!["/usr/bin/ssh".into(), "-p".into(), "22".into()],
            remote_command: "~/bin/godwit".into(),
            unattended: true,
            carried: Arc::default(),
        };
        let login = Login {
            user: Some("alice".into()),
            host: "::1".into(),
        };
        assert_eq!(
            rsh.line(&login, "agent --stdio"),
            [
                "/usr/bin/ssh",
                "-p",
                "22",
                "-T",
                "-o",
                "BatchMode=yes",
                "-l",
                "alice",
                "::1",
                "~/bin/godwit agent --stdio"
            ]
        );
    }
}
