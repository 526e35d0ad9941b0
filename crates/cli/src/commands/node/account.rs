//! `godwit user passwd` and `godwit token revoke --others`: changes that every user may make to the own account.
//! Shows no password, and takes none from a command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use clap::ArgMatches;
use godwit_api::rest::NewPassword;
use godwit_client::{Client, read_secret};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use crate::exit::Failure;
use crate::output::print;

/// The longest password that a node takes.
const BYTES_MAX: usize = 1_024;

/// `godwit user passwd`: changes the own password.
pub(super) fn change_password(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let from_file = |name: &str| {
        let file = matches.get_one::<OsString>(name);
        file.map(|file| password(Path::new(file))).transpose()
    };
    let (current, new) = match (from_file("current-file")?, from_file("password-file")?) {
        (Some(current), Some(new)) => (current, new),
        (current, new) => {
            let mut terminal = Terminal::open()?;
            let current = match current {
                Some(current) => current,
                None => terminal.ask("Current password: ")?,
            };
            let new = match new {
                Some(new) => new,
                None => {
                    let new = terminal.ask("New password: ")?;
                    if terminal.ask("New password again: ")? != new {
                        return Err(Failure::usage(
                            "the two new passwords differ; the password was not changed",
                        ));
                    }
                    new
                }
            };
            (current, new)
        }
    };
    let change = NewPassword { current, new };
    client.account().change_password(&change)?;
    print("password changed; all your other sessions and log-ins have ended");
    Ok(())
}

/// `godwit token revoke --others`: ends all sessions and log-ins except the asking one.
pub(super) fn end_others(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let made = matches.get_flag("made");
    client.account().end_others(made)?;
    print(match made {
        true => "all your other sessions, log-ins and tokens have ended",
        false => "all your other sessions and log-ins have ended",
    });
    Ok(())
}

/// The first line of a file that only its owner may read.
pub(super) fn password(file: &Path) -> Result<String, Failure> {
    let content = read_secret(file).map_err(Failure::usage)?;
    let content = String::from_utf8(content).map_err(|_error| {
        Failure::usage(format!("{}: the password is not UTF-8", file.display()))
    })?;
    let password = content.strip_suffix('\n').unwrap_or(&content);
    if password.is_empty() || password.contains('\n') {
        return Err(Failure::usage(format!(
            "{}: write the password on one line, and nothing else",
            file.display()
        )));
    }
    Ok(password.to_owned())
}

/// The terminal of the command, without echo. Dropping it restores the terminal.
struct Terminal {
    file: File,
    before: Termios,
}

impl Terminal {
    fn open() -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::usage(format!(
                "the passwords cannot be asked for without a terminal ({error}); put them in files, and name these with --current-file and --password-file"
            ))
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .map_err(failed)?;
        let before = tcgetattr(&file).map_err(|error| failed(error.into()))?;
        let mut silent = before.clone();
        // Control-C arrives as a byte, so that the terminal gets its echo back before the command ends.
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&file, OptionalActions::Flush, &silent).map_err(|error| failed(error.into()))?;
        Ok(Self { file, before })
    }

    fn ask(&mut self, prompt: &str) -> Result<String, Failure> {
        let failed = |error: io::Error| Failure::local(format!("/dev/tty: {error}"));
        self.file.write_all(prompt.as_bytes()).map_err(failed)?;
        let line = line_of(&mut self.file).map_err(failed);
        self.file.write_all(b"\n").map_err(failed)?;
        let line = line?.ok_or_else(|| Failure::usage("nothing is changed"))?;
        String::from_utf8(line).map_err(|_error| Failure::usage("the password is not UTF-8"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no reset.
        let _ = tcsetattr(&self.file, OptionalActions::Flush, &self.before);
    }
}

/// A line that the user types, with backspace and Control-U. None at the end of input, at Control-C and at Control-D.
fn line_of(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        if input.read(&mut byte)? == 0 {
            return Ok(None);
        }
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(line)),
            CONTROL_C | CONTROL_D => return Ok(None),
            CONTROL_U => line.clear(),
            BACKSPACE | DELETE => {
                // Removes all bytes of a UTF-8 character.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte if line.len() < BYTES_MAX => line.push(byte),
            _ => return Err(io::Error::other("the password is too long")),
        }
    }
}

const CONTROL_C: u8 = 3;
const CONTROL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CONTROL_U: u8 = 21;
const DELETE: u8 = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_was_typed_and_corrected() {
        let typed = |bytes: &[u8]| line_of(&mut &*bytes).ok().flatten();
        for (bytes, line) in [
            (&b"secret\n"[..], Some(&b"secret"[..])),
            (b"secreX\x7ft\rmore", Some(b"secret")),
            ("ö\u{7f}o\n".as_bytes(), Some(b"o")),
            (b"\x7f\x08a\n", Some(b"a")),
            (b"wrong\x15right\n", Some(b"right")),
            (b"\n", Some(b"")),
            (b"sec\x03ret\n", None),
            (b"sec\x04", None),
            (b"sec", None),
        ] {
            assert_eq!(typed(bytes).as_deref(), line, "{bytes:?}");
        }
        assert_eq!(typed(&[b'x'; 2_000]), None);
    }
}
