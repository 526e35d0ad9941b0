//! Owns the channels of one transfer on the dialling side: finds them while the transfer runs, proves each, and connects over them.
//! Pairs nothing itself (`pairing`), and does not decide the number of connections.
//!
//! The search runs with short deadlines on a thread beside the transfer, and again when this machine's interfaces change. OPENED
//! contains the daemon's addresses, their prefixes, a number for each interface, and the dialled address. Each pair is proven by a
//! TLS connection with the pinned key, from a socket bound to address and device; that connection becomes the first stream of the
//! channel. If one side has only one interface, the search costs no thread, no message and no round trip.

mod wish;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_sys::interfaces::{InterfaceAddress, interfaces};

use crate::address::PeerAddress;
use crate::channel::{Channel, LeavesBy, LocalEnd};
use crate::connection::Connection;
use crate::dial::{Carrier, DialError, DialOptions, dial_over};
use crate::limits::{CHANNEL_DEADLINE, CHANNEL_ROUNDS_MAX, CHANNELS_FOUND_MAX, INTERFACES_EVERY};
use crate::pairing::{Pair, Pairing, TheirAddress};
use crate::tls::ClientTls;

pub use wish::{ChannelWish, ChannelWishError};

/// The channels of one transfer, numbered from 0 in the order in which they were found. Cheap to clone.
#[derive(Clone)]
pub struct Channels {
    shared: Arc<Shared>,
}

struct Shared {
    tls: ClientTls,
    options: DialOptions,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Counts openings, so that a search for a previous transfer adds no channels.
    generation: u64,
    list: Vec<Slot>,
}

struct Slot {
    channel: Channel,
    /// The connection that proved the channel, until it is used.
    spare: Option<Connection>,
}

impl Channels {
    /// An empty set of channels. `options` contain the expected peer and the options of streams.
    pub fn new(tls: ClientTls, options: DialOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                tls,
                options,
                inner: Mutex::default(),
            }),
        }
    }

    /// Replaces all channels by these; the first becomes number 0. Connections that proved some of them may be
    /// included.
    pub fn begin(&self, channels: Vec<(Channel, Option<Connection>)>) {
        let mut inner = locked(&self.shared.inner);
        inner.generation += 1;
        inner.list = channels
            .into_iter()
            .map(|(channel, spare)| Slot { channel, spare })
            .collect();
    }

    /// Adds a channel and returns its number.
    pub fn add(&self, channel: Channel, spare: Option<Connection>) {
        let mut inner = locked(&self.shared.inner);
        inner.list.push(Slot { channel, spare });
    }

    /// Whether there are no channels.
    pub fn is_empty(&self) -> bool {
        locked(&self.shared.inner).list.is_empty()
    }

    /// Number of channels.
    pub fn count(&self) -> u32 {
        u32::try_from(locked(&self.shared.inner).list.len()).unwrap_or(u32::MAX)
    }

    /// The channel of this number.
    pub fn get(&self, number: u32) -> Option<Channel> {
        let inner = locked(&self.shared.inner);
        let slot = inner.list.get(number as usize)?;
        Some(slot.channel.clone())
    }

    /// A new connection over the channel of this number; `None` if no channel has this number.
    ///
    /// # Errors
    /// The channel is dead, or another peer answers.
    pub fn connect(&self, number: u32) -> Option<Result<Connection, DialError>> {
        let channel = {
            let mut inner = locked(&self.shared.inner);
            let slot = inner.list.get_mut(number as usize)?;
            if let Some(spare) = slot.spare.take() {
                return Some(Ok(spare));
            }
            slot.channel.clone()
        };
        Some(self.dial(&channel).map(|(connection, _)| connection))
    }

    /// Connects over a channel and proves the peer's identity.
    ///
    /// # Errors
    /// No peer answers, or a wrong one.
    pub fn dial(&self, channel: &Channel) -> Result<(Connection, LeavesBy), DialError> {
        let address = PeerAddress::new(&channel.remote.ip().to_string(), channel.remote.port());
        let deadline = CHANNEL_DEADLINE.min(self.shared.options.deadline);
        let (tcp, leaves_by) = channel
            .connect(deadline)
            .map_err(|source| DialError::Connect {
                address: address.clone(),
                source,
            })?;
        let (connection, _) = dial_over(
            Carrier::Tcp(tcp),
            &address,
            &self.shared.tls,
            &self.shared.options,
        )?;
        Ok((connection, leaves_by))
    }

    /// Searches for more channels to these addresses in the background, on threads that are not joined. Costs nothing if the other
    /// side has one interface. Each attempt is short, and none is repeated until an interface of this machine appears or disappears.
    pub fn find(&self, their: &[TheirAddress]) {
        let own = interfaces().unwrap_or_default();
        let (pairing, generation) = self.pairing(&own, their);
        if !pairing.has_unpaired_remote() {
            return;
        }
        let finder = Finder {
            channels: self.clone(),
            own,
            their: their.to_vec(),
            generation,
        };
        // If no thread can be started for the search, the transfer has only one channel.
        let _ = std::thread::Builder::new()
            .name("gw-find".to_owned())
            .spawn(move || finder.run(pairing));
    }

    /// The interfaces without a channel, and the number of the transfer's opening.
    fn pairing(&self, own: &[InterfaceAddress], their: &[TheirAddress]) -> (Pairing, u64) {
        let mut pairing = Pairing::new(own, their);
        let inner = locked(&self.shared.inner);
        for slot in &inner.list {
            if let Some(local) = &slot.channel.local {
                pairing.take_addresses(local.address, slot.channel.remote.ip());
            }
        }
        (pairing, inner.generation)
    }

    /// Stops searches: they add no more channels.
    pub fn stop(&self) {
        let mut inner = locked(&self.shared.inner);
        inner.generation += 1;
        for slot in &mut inner.list {
            slot.spare = None;
        }
    }
}

/// How often a search that waits for changed interfaces checks whether the transfer has ended.
const WANTED_EVERY: Duration = Duration::from_millis(250);

/// Searches channels for one opening of the transfer.
struct Finder {
    channels: Channels,
    own: Vec<InterfaceAddress>,
    their: Vec<TheirAddress>,
    generation: u64,
}

impl Finder {
    /// Searches until the transfer ends. An interface that disappeared loses its channel, which is used again once the
    /// interface is back.
    fn run(mut self, mut pairing: Pairing) {
        while pairing.has_unpaired_remote() {
            self.look(pairing);
            if !self.await_others() {
                return;
            }
            (pairing, _) = self.channels.pairing(&self.own, &self.their);
        }
    }

    /// Waits until this machine's interfaces change; false once the search is no longer needed.
    fn await_others(&mut self) -> bool {
        loop {
            let until = Instant::now() + INTERFACES_EVERY;
            while Instant::now() < until {
                // A count below 2 means that the transfer was dropped, and only this thread still holds the channels.
                if !self.is_wanted() || Arc::strong_count(&self.channels.shared) < 2 {
                    return false;
                }
                std::thread::sleep(WANTED_EVERY);
            }
            let now = interfaces().unwrap_or_default();
            if now != self.own {
                self.own = now;
                return true;
            }
        }
    }

    fn look(&self, mut pairing: Pairing) {
        let near = pairing.near();
        self.try_all(near, &mut pairing);
        for round in 0..pairing.rounds().min(CHANNEL_ROUNDS_MAX) {
            if pairing.room() == 0 || !self.is_wanted() {
                return;
            }
            let far = pairing.far(round);
            self.try_all(far, &mut pairing);
        }
    }

    fn is_wanted(&self) -> bool {
        let inner = locked(&self.channels.shared.inner);
        inner.generation == self.generation && inner.list.len() < CHANNELS_FOUND_MAX
    }

    /// Tries all pairs at once; each working pair becomes a channel, and its interfaces are not paired again.
    fn try_all(&self, pairs: Vec<Pair>, pairing: &mut Pairing) {
        let proven: Vec<Pair> = std::thread::scope(|scope| {
            let attempts: Vec<_> = pairs
                .into_iter()
                .take(CHANNELS_FOUND_MAX)
                .filter_map(|pair| {
                    let body = move || self.prove(&pair).then_some(pair);
                    std::thread::Builder::new()
                        .name("gw-find".to_owned())
                        .spawn_scoped(scope, body)
                        .ok()
                })
                .collect();
            attempts
                .into_iter()
                .filter_map(|attempt| attempt.join().ok().flatten())
                .collect()
        });
        for pair in &proven {
            pairing.take(pair);
        }
    }

    fn prove(&self, pair: &Pair) -> bool {
        for way in &pair.ways {
            if let Ok((connection, leaves_by)) = self.channels.dial(way)
                && (leaves_by == LeavesBy::Interface || way.is_routed(&self.own))
            {
                return self.add(way.clone(), connection);
            }
        }
        false
    }

    fn add(&self, channel: Channel, connection: Connection) -> bool {
        let mut inner = locked(&self.channels.shared.inner);
        let wanted = inner.generation == self.generation && inner.list.len() < CHANNELS_FOUND_MAX;
        if wanted {
            inner.list.push(Slot {
                channel,
                spare: Some(connection),
            });
        }
        wanted
    }
}

/// The channel of a connection between these addresses.
pub fn channel_of(local: SocketAddr, remote: SocketAddr) -> Channel {
    let address = canonical(local).ip();
    let interface = interfaces()
        .unwrap_or_default()
        .into_iter()
        .find(|own| own.address == address)
        .map(|own| own.interface);
    Channel {
        local: Some(LocalEnd { address, interface }),
        remote: canonical(remote),
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
