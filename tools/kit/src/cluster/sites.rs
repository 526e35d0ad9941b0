//! Owns two sites in one network: the nodes of each are a cluster and share one directory, and the first site may write to the second.
//! Submits no jobs to them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;

use super::disk::Disk;
use super::mount::Mount;
use super::network::{LINKS, Network};
use super::node::{Node, PORT};

/// Time within which nodes must become one cluster.
const JOIN_LIMIT: Duration = Duration::from_secs(90);
/// Interval between checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Voters of a cluster by the number of its nodes, up to five.
const SEATS: [usize; 6] = [0, 1, 1, 3, 3, 5];

/// Number and speed of the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Nodes of the source.
    pub(crate) sources: usize,
    /// Nodes of the destination.
    pub(crate) destinations: usize,
    /// Rate of each link of a node in Mbit/s; sources before destinations.
    pub(crate) rates_mbit: Vec<u32>,
    /// Whether block contents may be sent unencrypted.
    pub(crate) is_plain: bool,
    /// Whether each node has a separate mount, by `mergerfs`, of the storage that its site shares.
    pub(crate) is_mounted: bool,
}

impl Shape {
    /// Number of nodes of the smaller site.
    pub(crate) fn pairs(&self) -> usize {
        self.sources.min(self.destinations)
    }

    /// The rates as text: one rate if all are the same.
    pub(crate) fn rates(&self) -> String {
        let mut rates = self.rates_mbit.clone();
        rates.dedup();
        let rates: Vec<String> = match rates.as_slice() {
            [one] => vec![one.to_string()],
            _ => self.rates_mbit.iter().map(u32::to_string).collect(),
        };
        rates.join(",")
    }
}

/// The two sites. Nodes must be dropped before the network.
pub(crate) struct Sites {
    /// Mounts of the nodes, by the number of the node. Must be dropped first, because a process that waits for a hanging mount cannot be
    /// killed.
    mounts: BTreeMap<usize, Mount>,
    /// Nodes of the source, then those of the destination.
    pub(crate) nodes: Vec<Node>,
    /// File systems of the nodes' states, by the number of the node.
    disks: Vec<Disk>,
    /// The network.
    pub(crate) network: Network,
    /// Number of nodes of each site.
    pub(crate) shape: Shape,
    root: PathBuf,
}

impl Sites {
    /// Starts all nodes, joins those of each site, and makes the sites known to each other.
    ///
    /// # Errors
    /// A step fails, or `check` requests the end.
    pub(crate) fn start(
        program: &Path,
        root: &Path,
        shape: &Shape,
        check: &dyn Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let hosts = shape.sources + shape.destinations;
        let mut sites = Self {
            nodes: Vec::new(),
            mounts: BTreeMap::new(),
            disks: Vec::new(),
            network: Network::make(shape.sources, shape.destinations, &shape.rates_mbit)?,
            shape: shape.clone(),
            root: root.to_owned(),
        };
        for host in 0..hosts {
            let is_source = host < shape.sources;
            let (letter, first) = if is_source {
                ('s', 0)
            } else {
                ('d', shape.sources)
            };
            let label = format!("{letter}{}", host - first + 1);
            let name = if host == first { "node1" } else { &label };
            let home = root.join("homes").join(&label);
            let mut export = sites.shared(host);
            if shape.is_mounted {
                fs::create_dir_all(&export)?;
                let place = root.join("mounts").join(&label);
                sites.mounts.insert(host, Mount::make(&export, &place)?);
                export = place;
            }
            let node = Node::new(program, host, name, &home, &export)?;
            sites.disks.push(Disk::make(&home.join("state"))?);
            sites.nodes.push(node);
        }
        sites.join(0..shape.sources, check)?;
        sites.join(shape.sources..hosts, check)?;
        sites.introduce()?;
        Ok(sites)
    }

    fn join(
        &mut self,
        nodes: std::ops::Range<usize>,
        check: &dyn Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let first = nodes.start;
        for node in nodes.clone() {
            check()?;
            self.join_one(node, first)?;
        }
        let seats = SEATS[nodes.len().min(SEATS.len() - 1)];
        let until = Instant::now() + JOIN_LIMIT;
        loop {
            check()?;
            let views = nodes.clone().map(|node| self.view(node));
            let views: Vec<Value> = views.filter_map(Result::ok).collect();
            let are_one = |view: &Value| {
                names(view, |node| node["state"] == "up").len() == nodes.len()
                    && names(view, |node| node["votes"] == true).len() == seats
            };
            if views.len() == nodes.len() && views.iter().all(are_one) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "no cluster: {views:?}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn join_one(&mut self, node: usize, first: usize) -> anyhow::Result<()> {
        let mut more: Vec<String> = Vec::new();
        if self.shape.is_plain {
            more.extend(["--encryption", "any"].map(str::to_owned));
        }
        if node != first {
            let token = self.nodes[first].ask(&["cluster", "invite"])?;
            let file = self.root.join("token");
            fs::write(&file, token.trim())?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
            let by = format!("{}:{PORT}", self.network.address(first, 0));
            let words = ["--join", &by, "--name", &self.nodes[node].name];
            more.extend(words.map(str::to_owned));
            more.push("--token-file".to_owned());
            more.push(file.display().to_string());
        }
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        self.nodes[node].start(&self.network, &more)
    }

    /// Permits the nodes of the source to write at the destination, and makes the destination known to them.
    fn introduce(&self) -> anyhow::Result<()> {
        let there = &self.nodes[self.shape.sources];
        for node in &self.nodes[..self.shape.sources] {
            let line = ["access", "allow", &node.identity, "--export", "data"];
            there.ask(&[&line[..], &["--read", "--write"]].concat())?;
        }
        let addresses: Vec<String> = (0..LINKS)
            .map(|link| format!("{}:{PORT}", self.network.address(there.host, link)))
            .collect();
        let mut line = vec!["site", "add", "far"];
        line.extend(addresses.iter().map(String::as_str));
        line.extend(["--identity", &there.identity]);
        self.nodes[0].ask(&line)?;
        Ok(())
    }

    /// Restarts a node that was killed.
    ///
    /// # Errors
    /// The node does not answer.
    pub(crate) fn restart(&mut self, node: usize) -> anyhow::Result<()> {
        let plain = ["--encryption", "any"];
        let more: &[&str] = if self.shape.is_plain { &plain } else { &[] };
        self.nodes[node].start(&self.network, more)
    }

    /// Sends a signal to the file system that a node has mounted.
    ///
    /// # Errors
    /// The node has no separate mount.
    pub(crate) fn signal_mount(&self, node: usize, signal: Signal) -> anyhow::Result<()> {
        let mount = self.mounts.get(&node);
        mount
            .context("nodes have separate mounts with --mounts alone")?
            .signal(signal);
        Ok(())
    }

    /// The file system of a node's state.
    ///
    /// # Errors
    /// There is no such node.
    pub(crate) fn disk(&self, node: usize) -> anyhow::Result<&Disk> {
        self.disks.get(node).context("no such node")
    }

    /// The shared directory of a node's site, without a mount.
    pub(crate) fn shared(&self, node: usize) -> PathBuf {
        let site = if node < self.shape.sources {
            "near"
        } else {
            "far"
        };
        self.root.join(site)
    }

    /// The state of a node's cluster, as the node reports it.
    ///
    /// # Errors
    /// The node does not answer.
    pub(crate) fn view(&self, node: usize) -> anyhow::Result<Value> {
        self.nodes[node].document(&["cluster", "status", "--json"])
    }

    /// The nodes of the site to which a node belongs.
    pub(crate) fn site_of(&self, node: usize) -> std::ops::Range<usize> {
        if node < self.shape.sources {
            0..self.shape.sources
        } else {
            self.shape.sources..self.nodes.len()
        }
    }

    /// The node with this name at the site of `site_of`.
    pub(crate) fn named(&self, name: &str, site_of: usize) -> Option<usize> {
        self.site_of(site_of)
            .find(|node| self.nodes[*node].name == name)
    }

    /// Waits until each node of a site reports all nodes of the site as up.
    ///
    /// # Errors
    /// The nodes are not up in time.
    pub(crate) fn wait_until_up(
        &self,
        check: &dyn Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + JOIN_LIMIT;
        for node in 0..self.nodes.len() {
            let all = self.site_of(node).len();
            loop {
                check()?;
                let view = self.view(node);
                let up = view.as_ref().map(|view| {
                    let up = names(view, |node| node["state"] == "up").len();
                    up == all && view["leader"].is_string()
                });
                if up.unwrap_or(false) {
                    break;
                }
                if Instant::now() > until {
                    bail!("{} does not see all nodes up: {view:?}", self.label(node));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// The directory with all files of the nodes.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The name of a node in the output of the kit: `s1` is the first node of the source.
    pub(crate) fn label(&self, node: usize) -> String {
        let stem = self.nodes[node].home().file_name();
        stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }

    /// Processor time of all nodes so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.nodes.iter().map(Node::cpu_seconds).sum()
    }

    /// Copies the output of all nodes to a directory.
    ///
    /// # Errors
    /// The logs cannot be written.
    pub(crate) fn keep_logs(&self, into: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(into).with_context(|| format!("cannot make {into:?}"))?;
        for (number, node) in self.nodes.iter().enumerate() {
            let to = into.join(self.label(number)).with_extension("log");
            fs::copy(node.log(), to)?;
        }
        Ok(())
    }
}

/// The names of the nodes of a view for which `holds` is true.
pub(crate) fn names(view: &Value, holds: impl Fn(&Value) -> bool) -> Vec<&str> {
    let nodes = view["nodes"].as_array().into_iter().flatten();
    let nodes = nodes.filter(|node| holds(node));
    nodes.filter_map(|node| node["name"].as_str()).collect()
}
