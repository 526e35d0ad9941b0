//! Owns the chain of a history: the list of its generations, each with the C4 digest of its file.
//! Knows nothing of what the generations say.

use std::io::{self, BufReader, Write as _};
use std::path::Path;

use crate::digest::{Digest, DigestState, Format};
use crate::place::open_file;
use crate::write::{self, escaped};
use crate::{Error, Reading, Watch, read};

/// The file of the chain in the folder of the history.
pub(crate) const FILE: &str = "ascmhl_chain.xml";

/// A generation as the chain lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) number: u32,
    /// The name of its file.
    pub(crate) file: String,
    pub(crate) digest: Digest,
}

/// Reads the chain in a folder.
pub(crate) fn load(folder: &Path, watch: &Watch<'_>) -> Result<Vec<Link>, Error> {
    let path = folder.join(FILE);
    let file = open_file(&path).map_err(Error::io(&path))?;
    match read::chain(BufReader::new(Reading { file, watch })) {
        Ok(links) => Ok(links),
        Err(_) if watch.is_stopped() => Err(Error::Stopped),
        Err(reason) => Err(Error::malformed(&path, reason)),
    }
}

/// Puts the chain into a folder. When the call returns, the chain is safe from a power cut.
pub(crate) fn store(folder: &Path, links: &[Link]) -> Result<(), Error> {
    let path = folder.join(FILE);
    let mut made = write::Replacing::begin(&path)?;
    let mut all = || -> io::Result<()> {
        made.write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
        made.write_all(b"<ascmhldirectory xmlns=\"urn:ASC:MHL:DIRECTORY:v2.0\">\n")?;
        for link in links {
            writeln!(made, "  <hashlist sequencenr=\"{}\">", link.number)?;
            writeln!(made, "    <path>{}</path>", escaped(&link.file))?;
            writeln!(made, "    <c4>{}</c4>", Format::C4.text(&link.digest))?;
            writeln!(made, "  </hashlist>")?;
        }
        made.write_all(b"</ascmhldirectory>\n")
    };
    all().map_err(Error::io(&path))?;
    made.finish()
}

/// The C4 digest of a file.
pub(crate) fn digest_of(path: &Path, watch: &Watch<'_>) -> Result<Digest, Error> {
    let mut file = open_file(path).map_err(Error::io(path))?;
    let mut running = DigestState::new(Format::C4);
    let mut buffer = vec![0; 1 << 20];
    loop {
        if watch.is_stopped() {
            return Err(Error::Stopped);
        }
        let count = io::Read::read(&mut file, &mut buffer).map_err(Error::io(path))?;
        if count == 0 {
            return Ok(running.finish());
        }
        running.update(&buffer[..count]);
    }
}
