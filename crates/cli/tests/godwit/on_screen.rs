//! The name of the file on its way, on the screen of a copy: to a node, from it, on this machine, and by ssh.
//! See `many` for the lines above it.

use std::process::Command;

use super::process::wait_until;
use super::rig::Rig;
use super::ssh::far::Far;
use super::terminal::Terminal;

const COLUMNS: u16 = 60;

/// A long name with a sign that would clear the screen.
fn name() -> String {
    format!("d/{}\u{1b}[2J.h5", "x".repeat(100))
}

/// The last row has the end of the name, with a sign in place of its beginning, and no row is too long.
#[track_caller]
fn assert_named(mut command: Command) {
    let terminal = Terminal::start(&mut command, COLUMNS);
    let shown = "x\\u{1b}[2J.h5";
    let named = wait_until(|| {
        let screen = terminal.screen();
        let last = screen.last()?;
        let above = screen.get(screen.len().checked_sub(2)?)?;
        let is_row = last.starts_with('…') && last.ends_with(shown);
        (is_row && above.contains(" stream")).then(|| last.chars().count())
    });
    assert_eq!(named, Some(COLUMNS.into()), "{:#?}", terminal.screen());
}

const SLOWLY: [&str; 5] = ["cp", "--limit", "1MB", "--block-size", "64KiB"];

#[test]
fn the_screen_names_the_file_on_its_way() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for tree in ["tree", "export/tree"] {
        rig.write(&format!("{tree}/{}", name()), vec![7; 100 << 20]);
    }
    let (url, there) = (rig.url("pushed"), rig.url("tree"));
    for places in [["tree", &url], [&there, "pulled"], ["tree", "copied"]] {
        let mut command = rig.client_command();
        command.args(SLOWLY).args(places).current_dir(rig.path(""));
        assert_named(command);
    }
}

#[test]
fn the_screen_names_the_file_on_its_way_by_ssh() {
    let far = Far::new();
    far.write(&format!("tree/{}", name()), vec![7; 100 << 20]);
    assert_named(far.client(None, &[&SLOWLY[..], &["tree", "far:copy"]].concat()));
}
