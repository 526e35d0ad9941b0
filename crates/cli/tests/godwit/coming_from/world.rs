//! Owns the machines and the data that the commands of docs/coming-from.md, docs/guide.md and README.md are run on, three times the same.
//! Does not know their use.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::super::process::{Outcome, Process};
use super::super::rig::is_root;
use super::super::ssh::far::{Far, Where};

/// Makes the paths of the page's commands in the working directory. `run42` here equals `run41` there. `run42` there has an entry for
/// each kind of comparison.
const DATA: &str = r#"set -e
mkdir -p here/run42/raw here/run42/cache here/run42/empty here/run42/sub/deep dtn2/data/run42/raw dtn2/data/run42/extra dtn3/data
cd here
head -c 300000 /dev/zero | tr '\0' a >'run42/raw/frame 1.h5'
head -c 200000 /dev/zero | tr '\0' b >'run42/raw/frame 2.h5'
echo one >run42/notes.txt; echo s >run42/raw/scratch.tmp; echo c >run42/cache/c1; echo x >run42/sub/deep/x.h5
ln -s notes.txt run42/latest; ln 'run42/raw/frame 2.h5' run42/also.h5; [ "$0" = no ] || mkfifo run42/control
find run42 -exec touch -h -d '2024-03-01 12:00:00.25 UTC' {} +
for name in fresh.h5 fresh.log sub/fresh.h5; do echo fresh >run42/$name; touch -d '1 hour ago' run42/$name; done
chmod 600 run42/notes.txt; chmod 750 run42/raw
setfattr -n user.origin -v dtn7 run42/notes.txt; setfacl -m u:1234:r run42/raw/scratch.tmp
[ "$(id -u)" != 0 ] || chown 1234:2345 run42/notes.txt run42/sub/deep/x.h5
head -c 2000000 /dev/zero | tr '\0' z >big.h5; echo A >a.txt; echo B >b.txt
printf '# rules\n*.tmp\n/cache/\n' >rules
cp -a run42 ../dtn2/data/run41
cd ../dtn2/data/run42
echo two >notes.txt; chmod 600 notes.txt; [ "$(id -u)" != 0 ] || chown 1234:2345 notes.txt
touch -r ../../../here/run42/notes.txt notes.txt
echo older >'raw/frame 1.h5'; touch -d '2023-01-01 UTC' 'raw/frame 1.h5'
echo newer >'raw/frame 2.h5'; touch -d '2025-01-01 UTC' 'raw/frame 2.h5'
echo old >extra/old.h5
cd ../../..
touch -d '2024-02-01 UTC' dtn2/data/run42/{extra/old.h5,extra,raw,.} here/run42/{.,raw,sub}
"#;

/// An sshd under several names, and programs that find it by them.
pub(super) struct Machines {
    far: Far,
}

/// Data before, and after each of two commands.
pub(super) struct World<'a> {
    machines: &'a Machines,
    directory: TempDir,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    Before,
    Theirs,
    Ours,
}

impl Machines {
    pub(super) fn start() -> Self {
        let mut far = Far::new();
        for name in ["dtn2", "dtn3", "gate"] {
            far.add(name, Where::default(), "");
        }
        let tools = far.path("tools");
        fs::create_dir(&tools).expect("made");
        symlink(env!("CARGO_BIN_EXE_godwit"), tools.join("godwit")).expect("made");
        let config = far.path("etc/ssh_config");
        let text = fs::read_to_string(&config).expect("ours");
        let (_, port) = far.listens_on("dtn2");
        let key = far.path("etc/user");
        let bare = text
            .replace(&format!(" Port {port}\n"), "")
            .replace(&key.display().to_string(), "none");
        fs::write(far.path("etc/ssh_config_bare"), bare).expect("ours");
        for program in ["ssh", "scp"] {
            let text = format!(
                "#!/bin/sh\nexec /usr/bin/{program} -F '{}'$SSH_CONFIG_TAIL \"$@\"\n",
                config.display()
            );
            let path = tools.join(program);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
        }
        Self { far }
    }

    /// The account on the other machines.
    pub(super) fn user(&self) -> String {
        self.far.user()
    }
}

impl<'a> World<'a> {
    /// Includes a FIFO if `fifo` is set; programs print different messages on one.
    pub(super) fn make(machines: &'a Machines, fifo: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let world = Self {
            machines,
            directory,
        };
        let before = world.root(Place::Before);
        fs::create_dir_all(&before).expect("made");
        let made = Command::new("bash")
            .args(["-c", DATA, if fifo { "yes" } else { "no" }])
            .current_dir(&before)
            .status();
        assert!(made.expect("bash runs").success(), "the data is made");
        let key = before.join("here/key");
        fs::copy(machines.far.path("etc/user"), &key).expect("copied");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("ours");
        for place in [Place::Theirs, Place::Ours] {
            let copied = Command::new("cp")
                .arg("-a")
                .args([&before, &world.root(place)])
                .status();
            assert!(copied.expect("cp runs").success(), "copied");
        }
        world
    }

    /// The compared directories: the working directory, and `/data` of both machines.
    pub(super) fn parts(&self, place: Place) -> [PathBuf; 3] {
        ["here", "dtn2/data", "dtn3/data"].map(|part| self.root(place).join(part))
    }

    /// The two trees that commands compare, as they were.
    pub(super) fn trees(&self) -> [PathBuf; 2] {
        ["here/run42", "dtn2/data/run42"].map(|tree| self.root(Place::Before).join(tree))
    }

    /// Runs a command of the page to its end.
    pub(super) fn run(&self, place: Place, line: &str) -> Outcome {
        let root = self.root(place);
        let (address, port) = self.machines.far.listens_on("dtn2");
        // If the page names port and key, the configuration of ssh names neither.
        let tail = if line.contains("2222") { "_bare" } else { "" };
        let mut line = format!("set -o pipefail; {line}").replace("2222", &port);
        for name in ["dtn2", "dtn3"] {
            let data = root.join(name).join("data");
            line = line.replace(
                &format!("{name}:/data"),
                &format!("{name}:{}", data.display()),
            );
        }
        let mut node = None;
        if line.contains("godwit://dtn2/") {
            let (process, url) = self.node(&root);
            line = line.replace("godwit://dtn2/", &url);
            node = Some(process);
        }
        let config = root.join("rsyncd.conf");
        let who = if is_root() { "uid = 0\ngid = 0\n" } else { "" };
        let text = format!(
            "{who}use chroot = no\nmunge symlinks = no\n[data]\npath = {}\nread only = no\n",
            root.join("dtn2/data").display()
        );
        fs::write(&config, text).expect("written");
        let mut process = self.start(&root, "bash", &["-c", &line], |command| {
            let daemon = format!("rsync --daemon --config={}", config.display());
            command
                .env("RSYNC_CONNECT_PROG", daemon)
                .env("SSH_CONFIG_TAIL", tail)
                .env("RCLONE_CONFIG", "/dev/null")
                .env("RCLONE_CONFIG_DTN2_TYPE", "sftp")
                .env("RCLONE_CONFIG_DTN2_HOST", &address)
                .env("RCLONE_CONFIG_DTN2_PORT", &port)
                .env("RCLONE_CONFIG_DTN2_USER", self.machines.far.user())
                .env(
                    "RCLONE_CONFIG_DTN2_KEY_FILE",
                    self.machines.far.path("etc/user"),
                )
        });
        let outcome = process.wait();
        drop(node);
        outcome
    }

    /// A node whose export `data` is `/data`, and the prefix of its URLs.
    fn node(&self, root: &Path) -> (Process, String) {
        let at_node = root.join("node");
        let admin = |arguments: &[&str]| {
            self.start(root, "godwit", arguments, |command| {
                command.env("GODWIT_HOME", &at_node)
            })
        };
        let client = |arguments: &[&str]| {
            let outcome = self
                .start(root, "godwit", arguments, |command| command)
                .wait();
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            outcome.out
        };
        let us = client(&["id"]);
        let granted = admin(&[
            "access",
            "allow",
            us.trim(),
            "--all-exports",
            "--read",
            "--write",
        ])
        .wait();
        assert_eq!(granted.code, Some(0), "{granted:?}");
        let export = format!("data={},owner", root.join("dtn2/data").display());
        let node = admin(&["serve", "--listen", "127.0.0.1:0", "--export", &export]);
        let line = node.wait_for("listening on ");
        let mut words = line.split_whitespace().skip(2);
        let address = words.next().expect("an address");
        client(&["trust", address, words.nth(1).expect("an identity")]);
        (node, format!("godwit://{address}/"))
    }

    fn start(
        &self,
        root: &Path,
        program: &str,
        arguments: &[&str],
        more: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Process {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut paths = vec![self.machines.far.path("tools")];
        paths.extend(std::env::split_paths(&path));
        let home = root.join("home");
        fs::create_dir_all(&home).expect("made");
        // Our tools come first in the search for the program.
        let program = paths
            .iter()
            .map(|directory| directory.join(program))
            .find(|path| path.exists())
            .unwrap_or_else(|| program.into());
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(root.join("here"))
            .env("PATH", std::env::join_paths(paths).expect("paths"))
            .env("GODWIT_HOME", home.join("godwit"))
            .env("HOME", home);
        Process::start(more(&mut command))
    }

    fn root(&self, place: Place) -> PathBuf {
        self.directory.path().join(match place {
            Place::Before => "before",
            Place::Theirs => "theirs",
            Place::Ours => "ours",
        })
    }
}
