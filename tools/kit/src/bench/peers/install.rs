//! Owns the installation of peers: Debian's packages, if they are missing and the user is root. Does not install
//! the tools of the tests: `scripts/setup.sh` does.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::super::contender::is_there;
use super::Definition;

/// Prevents Debian from starting the services of some packages: the benchmark starts its servers itself.
const NO_SERVICES: &str = "set -e; made=; policy=/usr/sbin/policy-rc.d; \
     if [ ! -e $policy ]; then printf '#!/bin/sh\\nexit 101\\n' >$policy; chmod 755 $policy; made=$policy; fi; \
     trap 'rm -f $made' EXIT; export DEBIAN_FRONTEND=noninteractive; \
     apt-get update -qq; apt-get install -y -qq --no-install-recommends \"$@\" >/dev/null";

/// A program that the benchmark itself runs, and the Debian package that has it.
pub(crate) type Tool = (&'static str, &'static str);

/// Installs `tools` and the programs of `peers` that are missing. Reports its actions and its failures.
///
/// # Errors
/// The installation is not permitted, or the packages are not available. The existing peers can still take part.
pub(crate) fn install(
    peers: &[&Definition],
    tools: &[Tool],
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let tools = tools.iter().filter(|(program, _)| !is_there(program));
    let missing: Vec<&&Definition> = peers.iter().filter(|peer| !peer.is_there()).collect();
    let mut packages: Vec<&str> = missing
        .iter()
        .flat_map(|peer| peer.packages.iter().map(String::as_str))
        .chain(tools.map(|(_, package)| *package))
        .collect();
    packages.sort_unstable();
    packages.dedup();
    for peer in missing.iter().filter(|peer| peer.packages.is_empty()) {
        let programs = peer.programs.join(", ");
        say(&format!(
            "{}: {programs} is not in PATH, and Debian has no package of it: install it yourself",
            peer.name
        ));
    }
    if packages.is_empty() {
        return Ok(());
    }
    let packages_said = packages.join(" ");
    if !rustix::process::geteuid().is_root() {
        bail!("missing packages, and only root installs them: apt-get install {packages_said}");
    }
    say(&format!("installing {packages_said}"));
    let status = Command::new("sh")
        .args(["-c", NO_SERVICES, "sh"])
        .args(&packages)
        .stdin(Stdio::null())
        .status()
        .context("cannot run sh")?;
    if !status.success() {
        bail!("cannot install {packages_said}: this needs Debian's apt-get and its mirrors");
    }
    Ok(())
}
