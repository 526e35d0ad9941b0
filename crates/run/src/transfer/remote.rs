//! Runs transfers with a daemon: its identity, its requests, and the end on this side. Does not
//! keep streams running; the engine's session does.

use std::cell::RefCell;
use std::sync::Arc;

use crate::itself::{self, ground, view};
use godwit_api::endpoint::{Endpoint, NodePlace, Remote};
use godwit_api::event::Started;
use godwit_api::settings::Encryption;
use godwit_engine::session::{Engine, Refusal};
use godwit_engine::{Counters, Order};
use godwit_net::check_congestion;
use godwit_proto::{
    Direction, ErrorCode, Ground, Mapping, Open, Opened, Preserve, Sharing, Side, TransferId,
};
use godwit_store::digest;
use godwit_tree::{Arrived, PreparedDestination};

use super::Job;
use super::ends::{Ends, LocalSources, SenderInput};
use super::entry_events::EntryEvents;
use super::from_settings::{
    bounds_of, concealed, going_to, key_of, lying_at, order_of, shown_of, wire_digest_of,
    wire_preserve_of,
};
use super::places;
use super::progressing::{Progressing, Totals};
use super::reach::{OtherEnd, Reach, reach};
use super::report::{Report, refusal_of};
use crate::reports::ReportRoots;
use godwit_api::failure::{Failure, FailureCode};

/// A transfer between this machine and a node or agent.
pub(super) struct WithNode<'a> {
    pub(super) ends: &'a Ends<'a>,
    pub(super) far: OtherEnd,
}

/// Runs a transfer from local sources to a daemon.
pub(super) fn push(
    ends: &Ends<'_>,
    sources: &[Endpoint],
    remote: &Remote,
) -> Result<Report, Failure> {
    let (path, is_directory) = match &remote.place {
        NodePlace::Export { directory, .. } => (remote.place.to_wire(), *directory),
        NodePlace::Memory { .. } | NodePlace::Null => (remote.place.to_wire(), false),
    };
    // The sources are found first, so that a wrong name is noticed before the node is asked.
    let local = ends.sources(sources)?;
    WithNode::at(ends, remote)?.push(local, path, is_directory)
}

/// Runs a transfer from a daemon to a local destination.
pub(super) fn pull(
    ends: &Ends<'_>,
    sources: &[Endpoint],
    destination: &Endpoint,
) -> Result<Report, Failure> {
    let remotes: Vec<&Remote> = sources
        .iter()
        .filter_map(|source| match source {
            Endpoint::Remote(remote) => Some(remote),
            _ => None,
        })
        .collect();
    let Some(first) = remotes.first() else {
        return Err(Failure::usage("no source was named"));
    };
    let with = WithNode::at(ends, first)?;
    let wanted = remotes
        .iter()
        .map(|remote| Wanted {
            path: remote.place.to_wire(),
            key: key_of(&remote.place),
            name: name_of(&remote.place),
            shown: shown_of(remote),
        })
        .collect();
    with.pull(wanted, destination)
}

impl<'a> WithNode<'a> {
    fn at(ends: &'a Ends<'a>, remote: &Remote) -> Result<Self, Failure> {
        let Job { env, settings, .. } = ends.job;
        let mut far = reach(
            &Reach {
                env,
                channels: &settings.channels,
                cipher: settings.cipher,
                streams: bounds_of(settings.streams),
                retry_for: settings.retry_for,
                handshake_deadline: settings.handshake_deadline,
                stall_deadline: settings.stall_deadline,
            },
            remote,
        )?;
        far.client.once = ends.job.pipes.once();
        Ok(Self { ends, far })
    }

    /// Runs a transfer from local sources to the other end.
    pub(super) fn push(
        &self,
        local: LocalSources,
        path: Vec<u8>,
        is_directory: bool,
    ) -> Result<Report, Failure> {
        let job = self.ends.job;
        let LocalSources {
            input,
            missing,
            names,
            absolute,
            shown,
        } = local;
        let missing = places::report_missing(job, missing);
        let conceals = job.env.exports.is_some() && !matches!(input, SenderInput::Memory(_));
        let congestion = &job.settings.sharing.congestion;
        if !congestion.is_empty() {
            check_congestion(congestion, "this machine")
                .map_err(|error| Failure::new(FailureCode::NotSupported, error))?;
        }
        let open = Open {
            direction: Direction::PUSH.0,
            // Standard input has no location.
            ground: (!job.pipes.from_input).then(|| ground(&absolute)),
            sources: match conceals {
                true => absolute.iter().map(|path| concealed(path)).collect(),
                false => absolute.clone(),
            },
            names: names.clone(),
            destination: path,
            destination_is_directory: is_directory || job.chosen.is_listed(),
            any_digest: true,
            earlier: job.record().earlier_of_push(),
            heirs: job.record().heirs(),
            may_not_read: job.env.hides_contents,
            may_not_list: job.env.hides_names,
            view: if conceals { Vec::new() } else { view() },
            ..self.request()
        };
        let totals = Totals::default();
        let mut progressing = Progressing::with(job, totals.clone());
        let mut begin = |opened: &Opened, transfer: TransferId| {
            if let Some(into) = Mapping(opened.mapping).into() {
                job.record().report_placed(into, opened.tag);
            }
            // No data has been sent, so nothing there was deleted or overwritten.
            if let Some(beacon) = &opened.beacon
                && let Some(reason) = self.ends.reason_by_beacon(
                    beacon,
                    (&input, &names, &absolute),
                    &opened.destination,
                )
            {
                return Err(Refusal::own(ErrorCode::INTO_ITSELF, reason));
            }
            let place = [self.far.prefix.as_bytes(), &opened.destination].concat();
            if opened.unproved {
                self.ends.say_unproved(&place);
            }
            self.say_begun(
                &shown,
                &place,
                opened.resumed && !job.pipes.from_input,
                transfer,
            );
            let counters = Arc::new(Counters::default());
            let arrived = Arrived {
                lost_bytes: opened.lost_bytes,
                held_bytes: opened.held_bytes,
                held_files: opened.held_files,
            };
            totals.add(&counters, arrived);
            let digest = self.digest_in_force(opened)?;
            let roots = ReportRoots {
                names: names.clone(),
                copies: input.trees(),
            };
            job.run.reports.begin(roots, digest).map_err(refusal_of)?;
            let observer =
                EntryEvents::of(job, &shown, Some((Side::DESTINATION, self.far.shown())));
            self.ends
                .sender(
                    &input,
                    shown.clone(),
                    transfer,
                    digest,
                    opened.block_bytes,
                    &counters,
                    observer,
                )
                .map(Engine::Sender)
                .map_err(refusal_of)
        };
        let report = progressing.run(&self.far.client, &open, &mut begin);
        let report = Report::of_client(report, &totals, missing, true, job);
        Ok(report.encrypted(self.far.encryption(&job.settings)))
    }

    /// Runs a transfer from the other end to a local destination.
    pub(super) fn pull(
        &self,
        wanted: Vec<Wanted>,
        destination: &Endpoint,
    ) -> Result<Report, Failure> {
        let job = self.ends.job;
        let (mut paths, mut names, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        let mut keys = Vec::new();
        for source in wanted {
            paths.push(source.path);
            keys.push(source.key);
            // An entry of a list is copied to the destination itself.
            names.push(if job.chosen.is_listed() {
                Vec::new()
            } else {
                source.name
            });
            shown.push(source.shown);
        }
        let prepare = || -> Result<Option<PreparedDestination>, Failure> {
            match destination {
                Endpoint::Local(path) => {
                    let sender = self.far.name.clone();
                    Ok(Some(self.ends.prepare_destination(
                        path,
                        sender,
                        names.clone(),
                        keys.clone(),
                    )?))
                }
                _ => Ok(None),
            }
        };
        // The destination is prepared before any request, and passed to the first engine.
        let mut prepared = Some(prepare()?);
        let begun_with = prepared.as_ref().and_then(Option::as_ref);
        let digest =
            begun_with.map_or_else(|| job.settings.digest, |prepared| prepared.config.digest);
        let open_for = (&*paths, &*names, digest);
        let mut open = self.pull_request(open_for, prepared.as_mut().and_then(Option::as_mut));
        let prepared = RefCell::new(prepared);
        let pulled = Pulled {
            names: &names,
            shown: &shown,
            digest,
        };
        let totals = Totals::default();
        let mut progressing = Progressing::with(job, totals.clone());
        let mut begin = |opened: &Opened, transfer: TransferId| {
            let taken = prepared.borrow_mut().take();
            let prepared = match taken {
                Some(prepared) => prepared,
                None => prepare().map_err(refusal_of)?,
            };
            self.begin_pull(&pulled, prepared, &totals, (opened, transfer))
        };
        let mut report = progressing.run(&self.far.client, &open, &mut begin);
        if report
            .end
            .as_ref()
            .is_err_and(|refusal| refusal.code() == ErrorCode::BEACON)
        {
            let mut prepared = prepared.borrow_mut();
            open = self.with_beacon(open, prepared.as_mut().and_then(Option::as_mut));
            drop(prepared);
            report = progressing.run(&self.far.client, &open, &mut begin);
        }
        // The transfer has not begun, so there is nothing to resume.
        if let Some(Some(prepared)) = prepared.into_inner()
            && let Err(error) = prepared.put_away()
        {
            job.run.events.note(&error.to_string());
        }
        let report = Report::of_client(report, &totals, 0, false, job);
        Ok(report.encrypted(self.far.encryption(&job.settings)))
    }

    /// The request for a transfer from the other end, whose destination here may be prepared.
    fn pull_request(
        &self,
        (paths, names, digest): (&[Vec<u8>], &[Vec<u8>], digest::DigestKind),
        prepared: Option<&mut PreparedDestination>,
    ) -> Open {
        let job = self.ends.job;
        let mut open = Open {
            direction: Direction::PULL.0,
            sources: paths.to_vec(),
            in_order: job.pipes.to_output,
            random_order: order_of(&job.settings) == Order::Random,
            digest: godwit_engine::wire_digest_kind(digest).0.into(),
            ..prepared.as_deref().map_or_else(
                || self.request(),
                |prepared| match job.env.exports {
                    // The location of an export is not revealed to another node.
                    Some(_) => lying_at(&prepared.destinations, self.request()),
                    None => going_to(&prepared.destinations, names, self.request()),
                },
            )
        };
        if !open.keeps_beacon() {
            open = self.with_beacon(open, prepared);
        }
        open
    }

    /// Begins the receiving end of an opened transfer.
    fn begin_pull(
        &self,
        pulled: &Pulled<'_>,
        prepared: Option<PreparedDestination>,
        totals: &Totals,
        (opened, transfer): (&Opened, TransferId),
    ) -> Result<Engine, Refusal> {
        let job = self.ends.job;
        let mapped = prepared
            .as_ref()
            .map_or_else(|| job.pipes.nowhere(), |prepared| prepared.mapped.clone());
        job.record().report_place(prepared.as_ref());
        self.say_begun(
            pulled.shown,
            &mapped,
            prepared
                .as_ref()
                .is_some_and(|prepared| prepared.recovered.resumed),
            transfer,
        );
        let counters = Arc::new(Counters::default());
        let arrived = prepared.as_ref().map(PreparedDestination::arrived);
        totals.add(&counters, arrived.unwrap_or_default());
        let copies = prepared
            .as_ref()
            .map_or_else(Vec::new, PreparedDestination::roots);
        let roots = ReportRoots {
            names: pulled.names.to_vec(),
            copies,
        };
        job.run
            .reports
            .begin(roots, pulled.digest)
            .map_err(refusal_of)?;
        let observer = EntryEvents::of(job, pulled.shown, Some((Side::SOURCE, self.far.shown())));
        self.ends
            .receiver(
                prepared,
                transfer,
                pulled.digest,
                opened.block_bytes,
                &counters,
                observer,
            )
            .and_then(|receiver| {
                if let Some(names) = job.chosen.names() {
                    receiver
                        .send_names(names)
                        .map_err(|error| Failure::new(FailureCode::OutOfResources, error))?;
                }
                Ok(Engine::Receiver(receiver))
            })
            .map_err(refusal_of)
    }

    /// The request with a beacon at its destination, if one can be made.
    fn with_beacon(&self, open: Open, prepared: Option<&mut PreparedDestination>) -> Open {
        let exported = self.ends.job.env.exports.is_some();
        let ground = open.ground.map(|ground| Ground {
            own: false,
            ..ground
        });
        let beacon = prepared.and_then(|prepared| {
            let beacon = itself::light(prepared, exported);
            if beacon.is_none() {
                self.ends.say_unproved(&prepared.mapped);
            }
            beacon
        });
        Open {
            beacon,
            ground,
            ..open
        }
    }

    fn request(&self) -> Open {
        let job = self.ends.job;
        let network_use = job.network_use();
        Open {
            digest: wire_digest_of(&job.settings).0.into(),
            force: job.settings.force,
            verify: job.settings.verify,
            no_sync: job.settings.no_sync,
            direct: job.settings.direct,
            // A request without this field also works with a daemon that does not know it.
            preserve: Some(wire_preserve_of(&job.settings))
                .filter(|preserve| *preserve != Preserve::default()),
            plain_payload: job.settings.encryption == Encryption::None,
            retry_for_ms: u64::try_from(job.settings.retry_for.as_millis()).unwrap_or(u64::MAX),
            streams: job.settings.streams.hold(2),
            block_bytes: job.settings.block_bytes,
            threads: job.settings.threads,
            selection: job.chosen.wire.clone(),
            limit_bytes_per_second: job
                .settings
                .limit_bytes_per_second
                .map_or(0, std::num::NonZeroU64::get),
            comparison: Some(job.comparison()),
            sharing: Some(Sharing {
                congestion: network_use.congestion,
                background: network_use.background,
            })
            .filter(|sharing| *sharing != Sharing::default()),
            label: job.env.label.clone().unwrap_or_default(),
            member: super::work::member_of(job.spec),
            mandate: job.env.wire_mandate(),
            ..Open::default()
        }
    }

    /// The digest in use: an unfinished transfer keeps the digest with which it began.
    fn digest_in_force(&self, opened: &Opened) -> Result<digest::DigestKind, Refusal> {
        let job = self.ends.job;
        let Some(kind) = opened.digest_kind() else {
            return Ok(job.settings.digest);
        };
        let Some(digest) = godwit_engine::digest_kind(kind) else {
            let message = format!(
                "the transfer was started with a digest that this version does not know (kind {})",
                kind.0
            );
            return Err(Refusal::own(ErrorCode::NOT_SUPPORTED, message));
        };
        if digest != job.settings.digest {
            job.note_digest_kept();
        }
        Ok(digest)
    }

    fn say_begun(
        &self,
        sources: &[Vec<u8>],
        destination: &[u8],
        resumed: bool,
        transfer: TransferId,
    ) {
        self.ends.job.run.begins(Started {
            transfer: transfer.to_string(),
            sources: sources.to_vec(),
            destination: destination.to_vec(),
            resumed,
        });
    }
}

/// Names of the roots that a transfer fetches from the other end, and its digest.
struct Pulled<'a> {
    names: &'a [Vec<u8>],
    shown: &'a [Vec<u8>],
    digest: digest::DigestKind,
}

/// A source at the other end.
pub(super) struct Wanted {
    /// Path of the source at the other end.
    pub(super) path: Vec<u8>,
    /// Name of the source in the key of the journal.
    pub(super) key: Vec<u8>,
    /// Name of the source in a destination directory; empty for "its contents".
    pub(super) name: Vec<u8>,
    /// Name of the source in messages.
    pub(super) shown: Vec<u8>,
}

/// The name that a source gets in a directory; empty for "its contents".
fn name_of(place: &NodePlace) -> Vec<u8> {
    match place {
        NodePlace::Export { contents: true, .. } => Vec::new(),
        NodePlace::Export { name, path, .. } => {
            let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if last.is_empty() {
                name.clone().into_bytes()
            } else {
                last.to_vec()
            }
        }
        NodePlace::Memory { .. } | NodePlace::Null => godwit_tree::synthetic::MEMORY_NAME.to_vec(),
    }
}
