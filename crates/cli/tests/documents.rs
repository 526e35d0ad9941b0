//! Man pages and completions, by the real binary: they are valid, and nothing is missing in them.
//! Knows no command and no flag; the help names them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use godwit_testkit::needs_root;

fn godwit(line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_godwit"))
        .args(line)
        .env_clear()
        .output()
        .expect("the binary runs")
}

/// The output of a command that needs no home.
fn output_of(line: &[&str]) -> String {
    let output = godwit(line);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

/// Each command as it is typed, as `cp` or `job list`, with its long flags.
fn commands() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let mut open = listed(&output_of(&["--help"]));
    assert!(!open.is_empty(), "a list");
    while let Some(command) = open.pop() {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = output_of(&words);
        open.extend(listed(&help).iter().map(|sub| format!("{command} {sub}")));
        found.insert(command, flags(&help));
    }
    found
}

/// The commands that a help lists.
fn listed(help: &str) -> Vec<String> {
    let Some(list) = help.split("\nCommands:").nth(1) else {
        return Vec::new();
    };
    let names = list
        .lines()
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|rest| !rest.starts_with(' '))
        })
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

fn flags(help: &str) -> Vec<String> {
    let named = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let word = match line.strip_prefix('-') {
            Some(rest) if rest.starts_with('-') => line,
            Some(_) => line.split_once(", ")?.1,
            None => return None,
        };
        let end = word.find(|next: char| next != '-' && !next.is_ascii_alphanumeric());
        Some(word[..end.unwrap_or(word.len())].to_owned())
    });
    named.filter(|flag| flag.starts_with("--")).collect()
}

/// The output of a program for a text on its standard input; the program must succeed.
fn judged(program: &str, arguments: &[&str], text: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .env("MANWIDTH", "1000")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh installs it"));
    let mut input = child.stdin.take().expect("piped");
    let text = text.to_owned();
    // On a thread, because the output may be longer than a pipe.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ran");
    writer.join().expect("no panic").expect("all was read");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complaint.is_empty(),
        "{program}: {complaint}"
    );
    output
}

#[test]
fn the_help_names_commands_and_flags() {
    let commands = commands();
    assert!(
        commands["cp"].contains(&"--streams".to_owned()),
        "{commands:?}"
    );
    assert!(
        commands["serve"].contains(&"--export".to_owned()),
        "{commands:?}"
    );
    assert!(commands.contains_key("doctor"), "{commands:?}");
}

#[test]
fn the_short_help_of_each_command_fits_a_screen() {
    for command in commands().keys() {
        let words: Vec<&str> = command.split(' ').chain(["-h"]).collect();
        let short = output_of(&words);
        let lines = short.lines().count();
        assert!(lines <= 50, "{command}: {lines} lines: {short}");
    }
    let cases: [(&[&str], &str, &str); 4] = [
        (&["serve"], "--export <NAME=PATH>", "--writers"),
        (&["verify"], "--extra", "--stall-deadline"),
        (&["job", "submit"], "--deadline", "--idempotency-key"),
        (&["schedule", "add"], "--time-zone", "--min-size"),
    ];
    for (command, common, rare) in cases {
        let short = output_of(&[command, &["-h"]].concat());
        let long = output_of(&[command, &["--help"]].concat());
        let name = command.join(" ");
        assert!(
            short.contains(common) && !short.contains(rare),
            "{name}: {short}"
        );
        assert!(
            short.contains(&format!("All flags: godwit {name} --help")),
            "{name}: {short}"
        );
        assert!(long.contains(rare), "{name}: {long}");
        assert!(!long.contains("All flags:"), "{name}: {long}");
    }
}

#[test]
fn completions_are_valid_and_complete() {
    // Each judges a script without running it.
    for shell in ["bash", "zsh", "fish"] {
        let script = output_of(&["completions", shell]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("completions");
        fs::write(&path, &script).expect("written");
        judged(shell, &["-n", path.to_str().expect("text")], "");
        for (command, flags) in commands() {
            let last = command.split(' ').next_back().expect("a word");
            assert!(script.contains(last), "{shell}: {command}");
            for flag in flags {
                // fish writes `-l streams`.
                let name = flag.trim_start_matches('-');
                let found = script.contains(&flag) || script.contains(&format!("-l {name}"));
                assert!(found, "{shell}: {command} {flag}");
            }
        }
        assert!(script.contains("chacha20-poly1305"), "{shell}");
    }
}

#[test]
fn bash_completes_a_flag_and_a_value() {
    let script = output_of(&["completions", "bash"]);
    for (line, expected) in [
        ("godwit do", "doctor"),
        ("godwit job submit --dead", "--deadline"),
        ("godwit cp --stre", "--streams"),
        ("godwit cp --cipher cha", "chacha20-poly1305"),
        ("godwit completions f", "fish"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let last = words.len() - 1;
        let ask = format!(
            "{script}\nCOMP_WORDS=({line}); COMP_CWORD={last}\n_godwit godwit {} {}\necho \"${{COMPREPLY[@]}}\"\n",
            words[last],
            words[last - 1],
        );
        let output = judged("bash", &["--norc"], &ask);
        let said = String::from_utf8(output.stdout).expect("text");
        assert_eq!(said.trim(), expected, "{line}");
    }
}

#[test]
fn man_pages_render_without_warnings_and_are_complete() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let target = directory.path().join("made/man1");
    output_of(&["man", target.to_str().expect("text")]);
    let commands = commands();
    let first = rendered(&target.join("godwit.1"));
    assert_eq!(
        output_of(&["man"]),
        fs::read_to_string(target.join("godwit.1")).expect("there")
    );
    assert_eq!(
        fs::read_dir(&target).expect("there").count(),
        commands.len() + 1
    );
    for (command, flags) in commands {
        let name = command.replace(' ', "-");
        let above = match name.rsplit_once('-') {
            Some((family, _)) => &rendered(&target.join(format!("godwit-{family}.1"))),
            None => &first,
        };
        assert!(above.contains(&format!("godwit-{name}(1)")), "{command}");
        let page = rendered(&target.join(format!("godwit-{name}.1")));
        for flag in flags {
            assert!(page.contains(&flag), "{command} {flag}");
        }
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "ENVIRONMENT",
            "FILES",
            "EXIT STATUS",
            "EXAMPLES",
            "SEE ALSO",
        ] {
            let example = section == "EXAMPLES" && page.contains("Example: godwit");
            assert!(page.contains(section) || example, "{command}: {section}");
        }
    }
}

/// As with `sudo make install`: root has made the directory of the pages in the source tree of a user.
#[test]
fn root_makes_the_pages_in_a_tree_of_another_user() {
    const OTHER: u32 = 12_345;
    if !needs_root() {
        return;
    }
    let place = tempfile::tempdir().expect("a temporary directory");
    let tree = place.path().join("tree");
    let pages = tree.join("target/man");
    fs::create_dir_all(&pages).expect("made");
    chown(&tree, Some(OTHER), Some(OTHER)).expect("root");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/man.sh");
    let mut make = Command::new(script);
    let make = make.arg(env!("CARGO_BIN_EXE_godwit")).arg(&pages);
    assert!(make.status().expect("it runs").success());
    assert!(pages.join("godwit-cp.1").exists());
}

#[test]
fn commands_for_programs_alone_are_in_no_document() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    output_of(&["man", directory.path().to_str().expect("text")]);
    assert!(directory.path().join("godwit-cp.1").exists());
    assert!(!directory.path().join("godwit-agent.1").exists());
    let shells = ["bash", "zsh", "fish"].map(|shell| output_of(&["completions", shell]));
    let texts = shells
        .into_iter()
        .chain([output_of(&["man"]), output_of(&["--help"])]);
    for text in texts {
        for hidden in [
            "__agent",
            "agent:",
            "\"agent\"",
            "godwit-agent",
            "tls-library",
            "feature-level",
        ] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }
    // The command itself exists.
    assert_eq!(godwit(&["agent"]).status.code(), Some(2));
}

/// A page as a reader sees it, with one line for each paragraph.
fn rendered(page: &Path) -> String {
    let text = fs::read_to_string(page).expect("written");
    let arguments = ["--warnings", "-E", "UTF-8", "-l", "-"];
    let output = judged("man", &arguments, &text);
    let rendered = String::from_utf8(output.stdout).expect("text");
    assert!(rendered.lines().count() > 10, "{page:?}: {rendered}");
    rendered
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let output = godwit(&["man", "/proc/none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/proc/none"));
    assert_eq!(godwit(&["completions", "tcl"]).status.code(), Some(2));
    let full = fs::OpenOptions::new()
        .write(true)
        .open(PathBuf::from("/dev/full"))
        .expect("there");
    let status = Command::new(env!("CARGO_BIN_EXE_godwit"))
        .args(["completions", "bash"])
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .expect("the binary runs");
    assert_eq!(status.code(), Some(1));
}
