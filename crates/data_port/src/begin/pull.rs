//! Starts the sending end of a pull: trees, or memory. Knows only the places that `places` found.

use std::sync::Arc;

use godwit_engine::governor::Needs;
use godwit_engine::names::{NameQueue, Names, QueueNames};
use godwit_engine::session::Engine;
use godwit_net::check_congestion;
use godwit_proto::ErrorCode;
use godwit_run::build::{self, SenderSettings, Sources, Trees};
use godwit_run::local::Access;
use godwit_store::Kind;
use godwit_tree::select::Select;
use godwit_tree::synthetic::MemorySource;
use godwit_tree::{Buffering, FoundRoot, TreeRoot};

use super::apart::{Sought, keep_apart};
use super::request_terms::{network_use_of, order_of, select_of};
use super::{Beginning, StartedEnd, journals, place_for};
use crate::admit::admit;
use crate::allow::{Denial, Who};
use crate::places::{FailedSource, SourcePlace};
use crate::session::HeldResources;

/// The sources of a pull.
#[derive(Default)]
struct FoundSources {
    roots: Vec<FoundRoot>,
    memory: Option<MemorySource>,
}

impl<'a> Beginning<'a, '_> {
    /// Begins the sending end of a pull.
    pub(super) fn pull(self) -> Result<StartedEnd<'a>, Denial> {
        let (shared, request) = (self.shared, self.request);
        let select = select_of(request)?;
        // The right is checked first, because the place may be taken from another transfer.
        let asked = Access::asked(request);
        let who = Who::opens(self.peer, request);
        let places = shared.places.sources(&who, &request.sources, asked)?;
        let held = HeldResources {
            journal: None,
            _slot: place_for(shared, self.peer, None)?,
        };
        let names = Arc::new(NameQueue::default());
        let found = self.find(places, select.is_listed())?;
        let sources = self.sources(found, &select, &names)?;
        let congestion = network_use_of(request).congestion;
        if !congestion.is_empty() {
            check_congestion(&congestion, "the machine that sends")
                .map_err(|error| Denial::new(ErrorCode::NOT_SUPPORTED, error.to_string()))?;
        }
        let needs = Needs::of_sender(
            shared.config.pool_bytes,
            self.block_bytes,
            shared.streams_max,
            shared.config.readers.most,
        );
        let sending = SenderSettings {
            pool_bytes: shared.config.pool_bytes,
            root_names: request.sources.clone(),
            limit: request.limit_bytes_per_second,
            readers: shared.config.readers,
            in_order: request.in_order,
            order: order_of(request),
            // The writing end checks its permission.
            fence: None,
            seat: None,
            buffering: shared.config.process.buffer.as_ref().map(Buffering::of),
        };
        let end = self.end(
            request.digest_kind(),
            admit(shared, self.peer, needs, request)?,
        );
        let sender = build::sender(end, sending, sources)
            .map_err(|error| Denial::new(ErrorCode::INTERNAL, error.to_string()))?;
        // The client has set the limit, and may change it.
        sender.obey_limits();
        if select.is_listed() {
            sender.take_names(names);
        }
        Ok(self.started(Engine::Sender(sender), held))
    }

    /// Sorts the sources, and refuses sources that overlap their destination.
    fn find(&self, places: Vec<SourcePlace>, is_listed: bool) -> Result<FoundSources, Denial> {
        let (shared, request) = (self.shared, self.request);
        let mut found = FoundSources::default();
        let mut failed = None;
        let mut own = Vec::new();
        let mut sought = Vec::new();
        for (source, asked) in places.into_iter().zip(&request.sources) {
            match source {
                SourcePlace::Memory(bytes) => found.memory = Some(MemorySource::new(bytes)),
                SourcePlace::Tree(tree) => {
                    // A peer does not learn the path of an export.
                    let shown = match shared.only {
                        None => asked.clone(),
                        Some(_) => tree.absolute.clone(),
                    };
                    own.push(tree.goes_to(request, is_listed));
                    sought.push(Sought {
                        root: tree.root.clone(),
                        real: tree.absolute,
                        shown,
                        name: tree.name.clone(),
                    });
                    found.roots.push(Ok(match is_listed {
                        true => directory(tree.root)?,
                        false => tree.root,
                    }));
                }
                // The entries of a list are all in one source, so there is no other source to continue with.
                SourcePlace::Failed(FailedSource { no, .. }) if is_listed => return Err(no),
                SourcePlace::Failed(FailedSource { fault, no }) => {
                    failed.get_or_insert(no);
                    found.roots.push(Err(fault));
                }
            }
        }
        if let Some(no) = failed
            && found.roots.iter().all(Result::is_err)
        {
            return Err(no);
        }
        keep_apart(shared, request, &sought, &own)?;
        Ok(found)
    }

    /// Sources for the engine.
    fn sources(
        &self,
        found: FoundSources,
        select: &Arc<Select>,
        names: &Arc<NameQueue>,
    ) -> Result<Sources, Denial> {
        let no = |why: &str| Err(Denial::new(ErrorCode::SOURCE, why));
        let queue = || Box::new(QueueNames(Arc::clone(names))) as Box<dyn Names>;
        match found.memory {
            Some(memory) if found.roots.is_empty() => Ok(Sources::Memory(memory)),
            Some(_) => no("mem: cannot be mixed with other sources"),
            None if found.roots.is_empty() => no("no source was named"),
            None => Ok(Sources::Trees(Trees {
                roots: found.roots,
                names: select.is_listed().then(queue),
                spill: journals(self.shared),
                preserve: self.request.preserve.unwrap_or_default(),
                select: Arc::clone(select),
                announces_passed: self.request.comparison.is_some_and(|wanted| wanted.delete),
                own: Arc::default(),
                items: Vec::new(),
            })),
        }
    }
}

/// A list names entries of a directory only.
fn directory(root: TreeRoot) -> Result<TreeRoot, Denial> {
    let there = root.storage.stat(&root.start);
    match there.map_err(|error| Denial::new(ErrorCode::SOURCE, error.to_string()))? {
        Some(meta) if meta.kind != Kind::Directory => Err(Denial::new(
            ErrorCode::SOURCE,
            format!(
                "{} is not a directory, so a list cannot name entries in it",
                root.start
            ),
        )),
        _ => Ok(root),
    }
}
