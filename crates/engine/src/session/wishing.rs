//! Fulfils the user's channel wishes: each channel is proven, or an error names the wish. Does not know daemons or
//! agents.
//!
//! `--channel` replaces the search for channels. Each channel is proven before data is sent.

use std::net::SocketAddr;

use godwit_net::{
    Channel, ChannelWish, Channels, Connection, DialError, InterfaceAddress, LeavesBy,
    TheirAddress, own_interfaces,
};
use godwit_proto::ErrorCode;

use super::Refusal;
use crate::PANICKED;

/// The connections from which wished channels are made.
pub struct WishedChannels<'a> {
    /// Makes the connections.
    pub channels: &'a Channels,
    /// The other end, for messages.
    pub peer: String,
    /// All wishes were fulfilled once, so a later failure may be temporary.
    pub again: bool,
}

impl WishedChannels<'_> {
    /// Finds and proves the remote address of each wish, from the other side's announcement. A wish without another
    /// remote address connects to `named`.
    ///
    /// # Errors
    /// Names the wish that cannot be fulfilled.
    pub fn fulfil(
        &self,
        wishes: Vec<ChannelWish>,
        their: &[TheirAddress],
        named: Option<SocketAddr>,
    ) -> Result<Vec<(Channel, Connection)>, Refusal> {
        let own = own_interfaces().unwrap_or_default();
        let mut left: Vec<&TheirAddress> = their.iter().filter(|their| !their.dialled).collect();
        let mut wanted = Vec::new();
        for wish in wishes {
            let port = named.or_else(|| their.first().map(|their| their.address));
            let said = wish.remote().zip(port);
            let said = said.map(|(remote, port)| SocketAddr::new(remote, port.port()));
            let near = said.or_else(|| wish.neighbour(&own, their));
            let far = || left.first().map(|their| their.address);
            let Some(remote) = near.or_else(far).or(named) else {
                return Err(self.refusal(wish.error(
                    "the other side does not announce its addresses; name one: LOCAL=REMOTE",
                )));
            };
            let interface = left
                .iter()
                .find(|their| their.address == remote)
                .map(|their| their.interface);
            left.retain(|their| Some(their.interface) != interface);
            let channel = wish.to(&own, remote).map_err(|error| self.refusal(error))?;
            wanted.push((wish, channel));
        }
        self.prove_all(wanted, &own)
    }

    /// Proves all channels at the same time.
    ///
    /// # Errors
    /// Names the first wish that cannot be fulfilled.
    pub fn prove_all(
        &self,
        wanted: Vec<(ChannelWish, Channel)>,
        own: &[InterfaceAddress],
    ) -> Result<Vec<(Channel, Connection)>, Refusal> {
        std::thread::scope(|scope| {
            let attempts: Vec<_> = wanted
                .into_iter()
                .map(|(wish, channel)| scope.spawn(move || self.prove(&wish, channel, own)))
                .collect();
            let failed = || Refusal::own(ErrorCode::INTERNAL, PANICKED);
            attempts
                .into_iter()
                .map(|attempt| attempt.join().unwrap_or_else(|_| Err(failed())))
                .collect()
        })
    }

    /// Proves one channel.
    ///
    /// # Errors
    /// Names the wish.
    pub fn prove(
        &self,
        wish: &ChannelWish,
        mut channel: Channel,
        own: &[InterfaceAddress],
    ) -> Result<(Channel, Connection), Refusal> {
        let mut dialled = self.channels.dial(&channel);
        // If the wish is an address, the user may accept the routing's choice of interface.
        if wish.is_address()
            && matches!(dialled, Err(DialError::Connect { .. }))
            && let Some(local) = &mut channel.local
            && local.interface.take().is_some()
        {
            dialled = self.channels.dial(&channel);
        }
        match dialled {
            Ok((_, LeavesBy::Routing)) if !channel.is_routed(own) => {
                Err(self.refusal(wish.error(UNBOUND)))
            }
            Ok((connection, _)) => Ok((channel, connection)),
            Err(error) if error.is_authentication() => Err(error.into()),
            Err(error) => {
                Err(self.refusal(wish.error(format!("{error} (dialled from {channel})"))))
            }
        }
    }

    /// If a requested channel cannot be used, the transfer ends, unless the channel worked before.
    pub fn refusal(&self, error: impl std::fmt::Display) -> Refusal {
        if self.again {
            return Refusal::Daemon {
                peer: self.peer.clone(),
                code: ErrorCode::CHANNEL,
                message: error.to_string(),
                retryable: true,
            };
        }
        Refusal::own(ErrorCode::CHANNEL, error)
    }
}

/// The reason why a named interface is not certain to be used.
const UNBOUND: &str = "this kernel lets only the administrator bind a connection to an interface (since Linux 5.7 any user can), and the routing \
                       would use a different interface; set up source routing (ip rule add from ADDRESS table N), and name the address";
