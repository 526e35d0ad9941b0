//! Owns a client's knowledge about daemons: the identity at each address. Asks no questions; the
//! caller decides whether to trust a new daemon.

use std::fmt;
use std::path::Path;

use crate::address::PeerAddress;
use crate::identity::IdentityId;
use crate::linefile::{Line, LineFile, LineFileError, entries};

/// The file `known_peers` of a home directory: lines of `host:port identity`.
pub struct KnownPeers {
    file: LineFile,
}

/// Result of [`KnownPeers::trust`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// The address was new.
    Added,
    /// The address already had that identity.
    AlreadyKnown,
    /// The address had this other identity before.
    Replaced(IdentityId),
}

struct Peer {
    address: PeerAddress,
    id: IdentityId,
}

impl KnownPeers {
    /// The known peers of `home`; reads nothing yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self {
            file: LineFile::new(home, "known_peers", HEADER),
        }
    }

    /// The known identity at `address`. Reads the file at each call.
    ///
    /// # Errors
    /// The file cannot be read, or has an invalid line.
    pub fn find(&self, address: &PeerAddress) -> Result<Option<IdentityId>, LineFileError> {
        let lines = self.file.read(parse)?;
        let found = entries(&lines).find(|peer| peer.address == *address);
        Ok(found.map(|peer| peer.id))
    }

    /// Stores `id` as the only trusted identity at `address`.
    ///
    /// # Errors
    /// The file cannot be read or written, or has an invalid line.
    pub fn trust(&self, address: &PeerAddress, id: IdentityId) -> Result<Trusted, LineFileError> {
        let mut outcome = Trusted::Added;
        self.file.change(parse, |lines| {
            let old = entries(lines)
                .find(|peer| peer.address == *address)
                .map(|peer| peer.id);
            match old {
                Some(old) if old == id => {
                    outcome = Trusted::AlreadyKnown;
                    return false;
                }
                Some(old) => outcome = Trusted::Replaced(old),
                None => {}
            }
            lines.retain(|line| !matches!(line, Line::Entry(peer, _) if peer.address == *address));
            let address = address.clone();
            lines.push(Line::Entry(Peer { address, id }, String::new()));
            true
        })?;
        Ok(outcome)
    }

    /// Removes the identity at `address`; returns whether there was one.
    ///
    /// # Errors
    /// As [`KnownPeers::trust`].
    pub fn forget(&self, address: &PeerAddress) -> Result<bool, LineFileError> {
        self.file.change(parse, |lines| {
            let before = lines.len();
            lines.retain(|line| !matches!(line, Line::Entry(peer, _) if peer.address == *address));
            lines.len() < before
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.address, self.id)
    }
}

fn parse(words: &[&str]) -> Result<Peer, String> {
    let [address, id] = words else {
        return Err(format!(
            "{} words where HOST:PORT IDENTITY is expected",
            words.len()
        ));
    };
    Ok(Peer {
        address: address.parse().map_err(|error| format!("{error}"))?,
        id: id.parse().map_err(|error| format!("{error}"))?,
    })
}

const HEADER: &str = "# Daemons this user trusts: host:port identity. Written by `godwit trust`.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn id() -> IdentityId {
        let home = tempfile::tempdir().unwrap();
        *Identity::load_or_create(home.path()).unwrap().id()
    }

    #[test]
    fn remembers_replaces_and_forgets() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        let peers = KnownPeers::new(&home);
        let (one, two) = (id(), id());
        let address: PeerAddress = "DTN2.example.org".parse().unwrap();
        let other: PeerAddress = "[2001:db8::1]:9".parse().unwrap();
        assert_eq!(peers.find(&address).unwrap(), None);
        assert_eq!(peers.trust(&address, one).unwrap(), Trusted::Added);
        assert_eq!(peers.trust(&other, one).unwrap(), Trusted::Added);
        assert_eq!(peers.trust(&address, one).unwrap(), Trusted::AlreadyKnown);
        assert_eq!(peers.trust(&address, two).unwrap(), Trusted::Replaced(one));
        let again: PeerAddress = "dtn2.example.org:7272".parse().unwrap();
        assert_eq!(peers.find(&again).unwrap(), Some(two));
        assert_eq!(peers.find(&other).unwrap(), Some(one));
        assert!(peers.forget(&address).unwrap());
        assert!(!peers.forget(&address).unwrap());
        assert_eq!(peers.find(&address).unwrap(), None);
        let mode = fs::metadata(home.join("known_peers")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn keeps_comments_and_names_the_line_at_fault() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_peers");
        let peers = KnownPeers::new(directory.path());
        let (one, two) = (id(), id());
        fs::write(&path, format!("# mine\n\n  a:1   {one} # the old one\n")).unwrap();
        assert_eq!(peers.find(&"a:1".parse().unwrap()).unwrap(), Some(one));
        peers.trust(&"b:2".parse().unwrap(), two).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            format!("# mine\n\na:1 {one} # the old one\nb:2 {two}\n")
        );
        fs::write(&path, format!("# mine\na:1 {one}\nb:2 gw1-nonsense\n")).unwrap();
        let error = peers.find(&"a:1".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("known_peers:3: "), "{error}");
        assert!(peers.trust(&"c:3".parse().unwrap(), two).is_err());
        fs::write(&path, format!("a:1 {one} more\n")).unwrap();
        assert!(peers.find(&"a:1".parse().unwrap()).is_err());
    }

    #[test]
    fn many_writers_lose_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let one = id();
        std::thread::scope(|scope| {
            for port in 1..=16 {
                let home = directory.path();
                scope.spawn(move || {
                    let peers = KnownPeers::new(home);
                    peers.trust(&PeerAddress::new("h", port), one).unwrap();
                });
            }
        });
        let peers = KnownPeers::new(directory.path());
        for port in 1..=16 {
            assert_eq!(peers.find(&PeerAddress::new("h", port)).unwrap(), Some(one));
        }
    }
}
