//! Owns the tests of `godwit ls` for a machine that ssh reaches.
//! Places of nodes are in `sites::places`.

use std::os::unix::fs::symlink;

use super::super::process::Outcome;
use super::far::Far;

fn ls(far: &Far, flags: &[&str], path: &str) -> Outcome {
    let place = format!("{}@far:{path}", far.user());
    far.run(&[&["ls"], flags, &[place.as_str()]].concat())
}

#[test]
fn files_of_a_machine_behind_ssh_are_listed() {
    let far = Far::new();
    far.write("home/set/a", "content");
    far.write("home/set/.hidden", "");
    far.write("home/set/d/b", "b");
    symlink("a", far.home().join("set/link")).expect("made");
    let absolute = far.home().join("set").display().to_string();
    for path in ["set", "~/set/", &absolute] {
        let outcome = ls(&far, &[], path);
        assert_eq!(outcome.code, Some(0), "{}", outcome.said());
        let names: Vec<&str> = outcome
            .out
            .lines()
            .filter_map(|line| line.split("  ").last())
            .collect();
        assert_eq!(names, ["a", "d", "link -> a"], "{}", outcome.out);
        assert!(outcome.out.starts_with("-rw-"), "{}", outcome.out);
    }
    ls(&far, &["--all"], "set").says(".hidden");
    ls(&far, &["--json"], "set/a").says(r#""size":7"#);
    // More than one page.
    for number in 0..1_200 {
        far.write(&format!("home/many/f{number:04}"), "");
    }
    let many = ls(&far, &[], "many");
    assert_eq!(many.out.lines().count(), 1_200, "{}", many.complaint);
}

#[test]
fn a_path_that_is_not_there_is_named() {
    let far = Far::new();
    let outcome = ls(&far, &[], "nowhere");
    assert_eq!(outcome.code, Some(3), "{}", outcome.said());
    outcome.says("nowhere");
}
