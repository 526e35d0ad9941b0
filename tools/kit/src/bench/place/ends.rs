//! Owns the names of the two namespaces of a place, and the names of the hosts in them. Makes no namespaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;

use super::super::contender::require;

/// Numbers the places of this process, because two can exist at once.
static PLACES: AtomicU32 = AtomicU32::new(0);
/// For commands of `ip netns exec`, files in a namespace's directory here replace the same files of `/etc`.
const ETC: &str = "/etc/netns";

/// The names of two namespaces; their files of `/etc` exist as long as this value.
pub(super) struct Ends {
    pub(super) near: String,
    pub(super) far: String,
}

impl Ends {
    /// Unique names.
    ///
    /// # Errors
    /// `ip` is missing.
    pub(super) fn name() -> anyhow::Result<Self> {
        require("ip")?;
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("gwb-{}-{number}-{end}", std::process::id());
        Ok(Self {
            near: name("near"),
            far: name("far"),
        })
    }

    /// Sets names for the addresses of both ends. Some peers look up the name of each host that they connect to, and these namespaces have
    /// no name server.
    ///
    /// # Errors
    /// The user may not write below `/etc`.
    pub(super) fn set_names<'a>(
        &self,
        near: impl Iterator<Item = &'a str>,
        far: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<()> {
        let named = near.map(|address| (address, "near"));
        let named: Vec<_> = named.chain(far.map(|address| (address, "far"))).collect();
        let uname = rustix::system::uname();
        let machine = uname.nodename().to_string_lossy();
        for (directory, here) in self.directories().iter().zip(["near", "far"]) {
            let mut hosts = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
            for (address, name) in &named {
                // The machine's own name refers to the end that looks it up.
                let own = if *name == here { &machine } else { "" };
                hosts.push_str(&format!("{address} {name}.bench {name} {own}\n"));
            }
            fs::create_dir_all(directory)
                .and_then(|()| fs::write(directory.join("hosts"), &hosts))
                .and_then(|()| fs::write(directory.join("resolv.conf"), "# nobody\n"))
                .with_context(|| format!("cannot write into {directory:?}"))?;
        }
        Ok(())
    }

    fn directories(&self) -> [PathBuf; 2] {
        [&self.near, &self.far].map(|end| Path::new(ETC).join(end))
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for directory in self.directories() {
            // The directory is missing if the names were never written.
            let _ = fs::remove_dir_all(directory);
        }
        // Other programs may have namespaces there.
        let _ = fs::remove_dir(ETC);
    }
}
