//! Owns `cluster.json` in the home: the cluster of the node, and the node's number and name in it. Stores only the facts that
//! the node needs to find the cluster again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use godwit_api::ask::KnownNode;
use serde::{Deserialize, Serialize};

/// Name of a node that has always been alone.
pub const NODE_ALONE: &str = "node1";

/// Number of the first node of a cluster.
pub const NUMBER_ALONE: u64 = 1;

const FILE: &str = "cluster.json";
const VERSION: u32 = 1;

/// The identity of this node within its cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterHome {
    version: u32,
    /// Id of the cluster: the identity of its first node, and the number of recoveries from one survivor.
    pub cluster: String,
    /// Number in the consensus.
    pub number: u64,
    /// Name of the node.
    pub name: String,
    /// The other nodes at the time of joining. This node asks them for the leader until the state has its row. After that the list has
    /// only the node itself, and the state lists the nodes.
    pub nodes: Vec<KnownNode>,
}

/// Reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error that the operating system returned.
        source: io::Error,
    },
    /// The content of the file has a form that this program does not write.
    #[error("{path}: {what}; restore the file from a backup of the home")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault in the file.
        what: String,
    },
}

impl ClusterHome {
    /// The file of a node that forms a cluster alone.
    #[must_use]
    pub fn of_one(identity: &str) -> Self {
        Self {
            version: VERSION,
            cluster: format!("{identity}/0"),
            number: NUMBER_ALONE,
            name: NODE_ALONE.to_owned(),
            nodes: Vec::new(),
        }
    }

    /// The file of a node that joined a cluster.
    #[must_use]
    pub fn joined(cluster: String, number: u64, name: String, nodes: Vec<KnownNode>) -> Self {
        Self {
            version: VERSION,
            cluster,
            number,
            name,
            nodes,
        }
    }

    /// The file of a node with this number and name that is the only node of a new cluster.
    #[must_use]
    pub fn restored(self, number: u64, name: &str) -> Self {
        Self {
            number,
            name: name.to_owned(),
            ..self.recovered()
        }
    }

    /// The file of the same node as the only node of a new cluster.
    #[must_use]
    pub fn recovered(mut self) -> Self {
        let (first, times) = self
            .cluster
            .rsplit_once('/')
            .unwrap_or((&self.cluster, "0"));
        let times: u64 = times.parse().unwrap_or(0);
        self.cluster = format!("{first}/{}", times + 1);
        self.nodes.clear();
        self
    }

    /// The file as it is after the row of this node has arrived.
    pub(crate) fn has_row(self, itself: KnownNode) -> Self {
        Self {
            nodes: vec![itself],
            ..self
        }
    }

    /// Whether this cluster was recovered from a survivor of the cluster with that id.
    pub(crate) fn is_recovered_from(&self, of: &str) -> bool {
        let parts = |id: &str| {
            let (first, times) = id.rsplit_once('/')?;
            Some((first.to_owned(), times.parse::<u64>().ok()?))
        };
        match (parts(&self.cluster), parts(of)) {
            (Some((own, now)), Some((other, then))) => own == other && now > then,
            _ => false,
        }
    }

    /// Reads the file of a home; `None` if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or its content is invalid.
    pub fn read(home: &Path) -> Result<Option<Self>, HomeError> {
        let path = home.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(HomeError::Io { path, source }),
        };
        let damaged = |what: String| HomeError::Damaged {
            path: path.clone(),
            what,
        };
        let read: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if read.version != VERSION {
            let what = format!(
                "it has version {}, this program knows {VERSION}",
                read.version
            );
            return Err(damaged(what));
        }
        Ok(Some(read))
    }

    /// Writes the file, atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, home: &Path) -> Result<(), HomeError> {
        let path = home.join(FILE);
        let draft = home.join("cluster.json.new");
        let written = || -> io::Result<()> {
            // A draft of a killed process must not lend its permissions, and a link must lead nowhere.
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new()
                .create_new(true)
                .write(true)
                .mode(0o600)
                .open(&draft)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(home)?.sync_all()
        };
        written().map_err(|source| HomeError::Io { path, source })
    }

    /// Removes the file.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(home: &Path) -> Result<(), HomeError> {
        let path = home.join(FILE);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(HomeError::Io { path, source })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let home = tempfile::tempdir().expect("a directory");
        assert_eq!(ClusterHome::read(home.path()).expect("none"), None);
        let one = ClusterHome::of_one("gw1-a");
        one.write(home.path()).expect("written");
        assert_eq!(
            ClusterHome::read(home.path()).expect("one"),
            Some(one.clone())
        );
        let again = one.clone().recovered().recovered();
        assert!(again.is_recovered_from(&one.cluster));
        assert!(!one.is_recovered_from(&again.cluster));
        assert!(!again.is_recovered_from(&again.cluster));
        assert!(!again.is_recovered_from("gw1-other/0"));
        assert_eq!(again.cluster, "gw1-a/2");
        fs::write(home.path().join(FILE), "{").expect("spoilt");
        let error = ClusterHome::read(home.path())
            .expect_err("spoilt")
            .to_string();
        assert!(
            error.contains("cluster.json") && error.contains("restore"),
            "{error}"
        );
        ClusterHome::remove(home.path()).expect("removed");
        ClusterHome::remove(home.path()).expect("gone");
    }
}
