//! Makes the connections of a transfer to a daemon that is dialled, over one or more channels. Does not open
//! transfers or keep streams running (`client`, `link`).

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_net::{
    Channel, ChannelWish, Channels, ClientTls, Connection, DialError, DialOptions, Expect,
    IdentityId, InterfaceAddress, PeerAddress, Stream, StreamOptions, TheirAddress, channel_of,
    dial, is_of_a_machine, own_interfaces,
};
use godwit_proto::Opened;

use super::early::{self, Early};
use super::wishing::WishedChannels;
use super::{Connector, GreetError, Refusal};
use crate::lock;

/// Options for dialling a daemon.
pub struct DaemonOptions {
    /// Address of the daemon.
    pub address: PeerAddress,
    /// Our key and ciphers.
    pub tls: ClientTls,
    /// The identity that the daemon must prove.
    pub identity: IdentityId,
    /// Time within which the daemon must make a connection ready for use.
    pub handshake_deadline: Duration,
    /// How long the other end's storage may block a stream before the stream is given up.
    pub stall_limit: Duration,
    /// The only channels to use; empty to use all that are found.
    pub wishes: Vec<ChannelWish>,
    /// Most streams of the transfer.
    pub streams_max: u32,
}

/// Dials a daemon.
pub struct DaemonConnector {
    options: DaemonOptions,
    channels: Channels,
    /// Channel wishes without a remote address that are not fulfilled yet.
    unfulfilled: Mutex<Vec<ChannelWish>>,
    /// Connections made during the opening, for the first streams that join.
    early: Early<Connection>,
    /// All wishes were fulfilled once, so a later failure may be temporary.
    fulfilled: AtomicBool,
}

impl DaemonConnector {
    /// Makes a connector; dials nothing yet.
    pub fn new(options: DaemonOptions) -> Self {
        let channels = Channels::new(options.tls.clone(), options.dialling());
        Self {
            options,
            channels,
            unfulfilled: Mutex::default(),
            early: Early::default(),
            fulfilled: AtomicBool::new(false),
        }
    }

    /// The connection that opens, if the user requested no channels: name and routing choose the path.
    fn dial_by_name(&self) -> Result<Connection, DialError> {
        let options = self.options.dialling();
        Ok(dial(&self.options.address, &self.options.tls, &options)?.0)
    }

    /// On a long path, makes connections for the first additional streams while the transfer is being opened.
    fn begin_early(&self, round_trip: Duration) {
        let count = early::count(self.options.streams_max, round_trip);
        let (address, tls) = (self.options.address.clone(), self.options.tls.clone());
        let options = self.options.dialling();
        let make = move || dial(&address, &tls, &options).ok().map(|(made, _)| made);
        self.early.begin(count, make);
    }

    /// The connection that opens, over one of the user's channels. All wishes with a remote address are proven.
    fn dial_as_wished(&self) -> Result<Connection, Refusal> {
        let own = own_interfaces().unwrap_or_default();
        let (named, mut open): (Vec<ChannelWish>, Vec<ChannelWish>) = self
            .options
            .wishes
            .iter()
            .cloned()
            .partition(|wish| wish.remote().is_some());
        let port = self.options.address.port();
        let mut wanted = Vec::new();
        for wish in named {
            if let Some(remote) = wish.remote() {
                let channel = wish
                    .to(&own, SocketAddr::new(remote, port))
                    .map_err(|error| self.wishing().refusal(error))?;
                wanted.push((wish, channel));
            }
        }
        let mut proven = self.wishing().prove_all(wanted, &own)?;
        if proven.is_empty() {
            let found = self.found()?;
            let near =
                |wish: &ChannelWish| found.iter().any(|named| wish.is_near(&own, named.ip()));
            let opening = open.remove(open.iter().position(near).unwrap_or(0));
            proven.push(self.prove_by_name(&opening, &found, &own)?);
        }
        let (first, connection) = proven.remove(0);
        let mut channels = vec![(first, None)];
        channels.extend(
            proven
                .into_iter()
                .map(|(channel, connection)| (channel, Some(connection))),
        );
        self.channels.begin(channels);
        *lock(&self.unfulfilled) = open;
        Ok(connection)
    }

    /// The addresses to which the daemon's name resolves.
    fn found(&self) -> Result<Vec<SocketAddr>, DialError> {
        let address = &self.options.address;
        let found = address.resolve(self.options.handshake_deadline);
        found.map_err(|source| DialError::Resolve {
            address: address.clone(),
            source,
        })
    }

    /// Connects to the first of the daemon's addresses that is reachable from the requested local end.
    fn prove_by_name(
        &self,
        wish: &ChannelWish,
        found: &[SocketAddr],
        own: &[InterfaceAddress],
    ) -> Result<(Channel, Connection), Refusal> {
        let mut refusal = None;
        for remote in found.iter().copied() {
            let proven = wish
                .to(own, remote)
                .map_err(|error| self.wishing().refusal(error))
                .and_then(|channel| self.wishing().prove(wish, channel, own));
            match proven {
                Ok(proven) => return Ok(proven),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| {
            self.wishing()
                .refusal(wish.error("the name has no address"))
        }))
    }

    fn wishing(&self) -> WishedChannels<'_> {
        WishedChannels {
            channels: &self.channels,
            peer: self.options.address.to_string(),
            again: self.fulfilled.load(Ordering::Relaxed),
        }
    }
}

impl Connector for DaemonConnector {
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal> {
        let mut stream = if self.options.wishes.is_empty() {
            let stream = self.dial_by_name()?;
            let way = stream.pulse();
            if let Some(vital) = way.as_ref().and_then(|way| way.vital().ok()) {
                self.begin_early(vital.round_trip);
            }
            let channel = way.map(|way| (channel_of(way.local(), way.remote()), None));
            self.channels.begin(channel.into_iter().collect());
            stream
        } else {
            self.dial_as_wished()?
        };
        stream.send_all(first).map_err(GreetError::from)?;
        Ok(stream)
    }

    fn opened(&self, opened: &Opened) -> Result<(), Refusal> {
        let their = their_addresses(opened);
        if self.options.wishes.is_empty() {
            self.channels.find(&their);
            return Ok(());
        }
        let wishes = std::mem::take(&mut *lock(&self.unfulfilled));
        let named = self.channels.get(0).map(|first| first.remote);
        for (channel, connection) in self.wishing().fulfil(wishes, &their, named)? {
            self.channels.add(channel, Some(connection));
        }
        self.fulfilled.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn channels(&self) -> u32 {
        self.channels.count().max(1)
    }

    fn join(&self, channel: u32) -> Result<Connection, Refusal> {
        // With one channel, name and routing decide for each connection.
        if (self.channels.count() > 1 || !self.options.wishes.is_empty())
            && let Some(connected) = self.channels.connect(channel)
        {
            match connected {
                // The local address may be gone, or may never have had a path to the daemon, so the first channel
                // falls back to the name.
                Err(DialError::Connect { .. })
                    if channel == 0 && self.options.wishes.is_empty() => {}
                other => return Ok(other?),
            }
        }
        match self.early.take(Instant::now) {
            Some(made) => Ok(made),
            None => Ok(self.dial_by_name()?),
        }
    }

    fn peer(&self) -> String {
        self.options.address.to_string()
    }

    fn give_up(&self) {
        self.channels.stop();
        self.early.end();
    }
}

impl DaemonOptions {
    fn dialling(&self) -> DialOptions {
        let mut options = DialOptions::new(Expect::Identity(self.identity));
        options.deadline = self.handshake_deadline;
        options.stream = StreamOptions {
            stall_limit: self.stall_limit,
            ..StreamOptions::default()
        };
        options
    }
}

/// The other end's announced addresses for the search of channels, without those that cannot belong to a machine.
pub fn their_addresses(opened: &Opened) -> Vec<TheirAddress> {
    let read = |announced: &godwit_proto::Announced| {
        let (ip, prefix_bits, port) = announced.parts().ok()?;
        is_of_a_machine(ip).then_some(TheirAddress {
            address: SocketAddr::new(ip, port),
            prefix_bits,
            interface: announced.interface,
            dialled: announced.dialled,
        })
    };
    opened.addresses.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_no_machine_are_not_tried() {
        let said = ["0.0.0.0", "::", "192.0.2.1", "224.0.0.1", "ff02::1"];
        let announced = |ip: &&str| godwit_proto::Announced::new(ip.parse().unwrap(), 24, 7272, 1);
        let opened = Opened {
            addresses: said.iter().map(announced).collect(),
            ..Opened::default()
        };
        let their: Vec<String> = their_addresses(&opened)
            .iter()
            .map(|their| their.address.to_string())
            .collect();
        assert_eq!(their, ["192.0.2.1:7272"]);
    }
}
