//! Owns one connection of a bare pipe: plain TCP here, TLS beside it. Does not interpret the bytes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use anyhow::{Context as _, bail, ensure};

/// One connection, blocking, used by one thread.
pub(crate) trait Link: Send {
    /// Sends all bytes.
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()>;
    /// Receives the available bytes, at least one; 0 means the end.
    fn receive_some(&mut self, into: &mut [u8]) -> anyhow::Result<usize>;
    /// Ends the sending direction; the other direction stays open.
    fn finish(&mut self) -> anyhow::Result<()>;

    /// Sends the receiver's last message: all data has arrived.
    fn confirm(&mut self) -> anyhow::Result<()> {
        self.send(&[1])
    }

    /// Waits for the receiver's last message.
    fn await_confirmation(&mut self) -> anyhow::Result<()> {
        let mut confirmed = [0];
        ensure!(
            self.receive_all(&mut confirmed)?,
            "the receiver did not confirm"
        );
        Ok(())
    }

    /// Fills `into`; `false` if the end came before the first byte.
    fn receive_all(&mut self, into: &mut [u8]) -> anyhow::Result<bool> {
        let mut filled = 0;
        while filled < into.len() {
            match self.receive_some(&mut into[filled..])? {
                0 if filled == 0 => return Ok(false),
                0 => bail!("the connection ended within a frame"),
                more => filled += more,
            }
        }
        Ok(true)
    }
}

/// Plain TCP.
pub(crate) struct PlainLink {
    socket: TcpStream,
}

impl PlainLink {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket }
    }
}

impl Link for PlainLink {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.socket.write_all(bytes).context("cannot send")
    }

    fn receive_some(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        self.socket.read(into).context("cannot receive")
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.socket
            .shutdown(Shutdown::Write)
            .context("cannot shut down")
    }
}
