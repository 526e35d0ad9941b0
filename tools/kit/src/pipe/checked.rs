//! Owns the digests of a bare pipe: of all sent and all received bytes of a connection, compared at its end. The
//! connection below it sends and receives.

use anyhow::ensure;
use crc_fast::{CrcAlgorithm, Digest};

use super::link::Link;

/// A connection whose bytes are digested at both ends with Godwit's CRC-64/NVME, once each, while they are in cache.
pub(crate) struct CheckedLink<'a> {
    link: Box<dyn Link + 'a>,
    sent: Digest,
    received: Digest,
}

impl<'a> CheckedLink<'a> {
    pub(crate) fn new(link: Box<dyn Link + 'a>) -> Self {
        Self {
            link,
            sent: Digest::new(CrcAlgorithm::Crc64Nvme),
            received: Digest::new(CrcAlgorithm::Crc64Nvme),
        }
    }
}

impl Link for CheckedLink<'_> {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.sent.update(bytes);
        self.link.send(bytes)
    }

    fn receive_some(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        let received = self.link.receive_some(into)?;
        self.received.update(&into[..received]);
        Ok(received)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.link.finish()
    }

    fn confirm(&mut self) -> anyhow::Result<()> {
        self.link.send(&self.received.finalize().to_le_bytes())
    }

    fn await_confirmation(&mut self) -> anyhow::Result<()> {
        let mut digest = [0; 8];
        ensure!(
            self.link.receive_all(&mut digest)?,
            "the receiver did not confirm"
        );
        ensure!(
            u64::from_le_bytes(digest) == self.sent.finalize(),
            "other bytes arrived than were sent"
        );
        Ok(())
    }
}
