//! Owns the test of docs/guide.md: the commands that copy and check data are run, in order, on the machines of `world`.
//! The test of the operator's guide covers commands of nodes, users and clusters; a test of the parser covers their form.

use std::fs;
use std::path::Path;

use super::output_of;
use super::world::{Machines, Place, World};

/// The sections with commands to run, and the least number of commands in each.
const SECTIONS: [(&str, usize); 8] = [
    ("First copy", 4),
    ("By ssh", 8),
    ("Sync and delete", 3),
    ("Choose entries", 4),
    ("Metadata", 3),
    ("What a copy guarantees", 2),
    ("Verify and manifests", 6),
    ("Standard input and output", 2),
];

fn commands(section: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    let page = fs::read_to_string(path).expect("the page");
    let section = page
        .split("\n## ")
        .find(|part| part.lines().next() == Some(section))
        .unwrap_or_else(|| panic!("no section {section}"));
    let lines = section.lines().filter_map(|line| line.strip_prefix("    "));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_guide_do_what_they_say() {
    let machines = Machines::start();
    for (section, at_least) in SECTIONS {
        let commands = commands(section);
        assert!(commands.len() >= at_least, "{section}: {commands:?}");
        let world = World::make(&machines, false);
        let user = machines.user();
        let [here, there, _] = world.parts(Place::Ours);
        // Files in it differ from ours at the same size and time, and nothing but `--checksum` would send those.
        fs::remove_dir_all(there.join("run42")).expect("it was there");
        let backup = here.join("backup");
        fs::create_dir_all(&backup).expect("made");
        let own = world.run(Place::Ours, "godwit id && cp -a run42 backup/");
        assert_eq!(own.code, Some(0), "{own:?}");
        let identity = own.out.lines().next().expect("an identity").to_owned();
        for command in commands {
            let line = command
                .replace("alice@", &format!("{user}@"))
                .replace("bob@", &format!("{user}@"))
                .replace("/backup/", "backup/")
                .replace("/archive/", "backup/")
                .replace("gw1-yours", &identity)
                .replace("50000-50100", "any")
                .replace("~/bin/godwit", env!("CARGO_BIN_EXE_godwit"));
            let outcome = world.run(Place::Ours, &line);
            assert_eq!(outcome.code, Some(0), "{}", output_of(&line, &outcome));
        }
    }
}
