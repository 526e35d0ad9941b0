//! Owns a terminal for a program of ours, and its contents.
//! Understands no more of its language than the program uses. The program is killed when dropped, by its id.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetwinsize, tcsetwinsize};

use super::process::wait_until;

/// Rows: enough for all that a test makes a program say.
const ROWS: u16 = 200;

/// A terminal with a program on it.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    said: Arc<Mutex<Vec<u8>>>,
    columns: usize,
}

impl Terminal {
    /// Runs the command with its standard error on a terminal of this width.
    pub(crate) fn start(command: &mut Command, columns: u16) -> Self {
        Self::begin(command.stdin(Stdio::null()), columns, false)
    }

    /// The same, and the command reads what is typed.
    pub(crate) fn start_typing(command: &mut Command, columns: u16) -> Self {
        Self::begin(command, columns, true)
    }

    fn begin(command: &mut Command, columns: u16, typing: bool) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("ours");
        unlockpt(&ours).expect("ours");
        let name = ptsname(&ours, Vec::new()).expect("it has a name");
        let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("open");
        let size = Winsize {
            ws_col: columns,
            ws_row: ROWS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&theirs, size).expect("a size");
        assert_eq!(
            tcgetwinsize(ours.as_fd()).map(|size| size.ws_col),
            Ok(columns)
        );
        if typing {
            command.stdin(theirs.try_clone().expect("a descriptor"));
        }
        let child = command
            .env("TERM", "xterm")
            .stdout(Stdio::null())
            .stderr(theirs)
            .spawn()
            .expect("the program runs");
        // The command holds a descriptor of the terminal until it is dropped. Replacing the streams closes it.
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let keys = File::from(ours.try_clone().expect("a descriptor"));
        let said = Arc::<Mutex<Vec<u8>>>::default();
        let (mut ours, kept) = (File::from(ours), Arc::clone(&said));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the other side is an error of this one.
            while let Ok(bytes @ 1..) = ours.read(&mut buffer) {
                kept.lock()
                    .expect("no panic")
                    .extend_from_slice(&buffer[..bytes]);
            }
        });
        Self {
            child,
            keys,
            said,
            columns: columns.into(),
        }
    }

    /// The lines that the terminal shows now. The program redraws the last ones.
    pub(crate) fn screen(&self) -> Vec<String> {
        let said = self.said.lock().expect("no panic").clone();
        show(&String::from_utf8_lossy(&said), self.columns)
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) {
        writeln!(self.keys, "{line}").expect("it is open");
    }

    /// Waits for the end of the program; its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let ended = wait_until(|| self.child.try_wait().expect("our child"));
        ended.expect("it ends").code()
    }

    /// Waits until it shows these words.
    #[track_caller]
    pub(crate) fn wait_for(&self, words: &str) {
        let shown = wait_until(|| self.screen().concat().contains(words).then_some(()));
        shown.unwrap_or_else(|| panic!("no {words:?} on {:#?}", self.screen()));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows of a screen after all this output. A line that is too long wraps into the next row.
fn show(said: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut characters = said.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                column = 0;
            }
            '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                let mut number = String::new();
                while let Some(digit) = characters.next_if(|next| !next.is_ascii_alphabetic()) {
                    number.push(digit);
                }
                let count = number.parse().unwrap_or(1);
                match characters.next() {
                    Some('A') => row = row.saturating_sub(count),
                    Some('B') => row += count,
                    Some('C') => column += count,
                    Some('D') => column = column.saturating_sub(count),
                    Some('K') if number == "2" => rows[row].clear(),
                    Some('K') => rows[row].truncate(column),
                    Some('J') => {
                        rows[row].truncate(column);
                        rows.truncate(row + 1);
                    }
                    // Colours.
                    Some('m') => {}
                    other => panic!("not known: {number}{other:?}"),
                }
            }
            character if character.is_control() => {}
            character => {
                if column == columns {
                    row += 1;
                    column = 0;
                }
                while rows.len() <= row {
                    rows.push(Vec::new());
                }
                let line = &mut rows[row];
                while line.len() <= column {
                    line.push(' ');
                }
                line[column] = character;
                column += 1;
            }
        }
        while rows.len() <= row {
            rows.push(Vec::new());
        }
    }
    rows.into_iter()
        .map(|row| row.into_iter().collect::<String>().trim_end().to_owned())
        .filter(|row| !row.is_empty())
        .collect()
}

#[test]
fn a_screen_is_what_was_written_last() {
    let said = "one\ntwo\r\u{1b}[1A\u{1b}[2Kthree\n\u{1b}[2Kfour\n\u{1b}[1mabcdef\u{1b}[0m";
    assert_eq!(show(said, 5), ["three", "four", "abcde", "f"]);
}
