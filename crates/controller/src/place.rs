//! Decides what each source of a divided job becomes at the destination.
//! Asks the destination once, when the work of the job begins: from then on the state has the answer.

use godwit_api::ask::{Answer, EntryKind, MakeDirectory, Question, Refusal, code};
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::Place;
use godwit_run::walk::{Walk, WalkLimits};
use godwit_state::{Agreed, LEVEL_CLOSES, WorkRoot};

use crate::batch::{ItemTransfer, To};
use crate::{Node, Order, measure};

/// The inputs of the decision.
pub(crate) struct Mapping<'a> {
    pub(crate) node: &'a Node,
    pub(crate) order: &'a Order<'a>,
    /// Asks a node of the destination.
    pub(crate) ask: &'a dyn Fn(&Question) -> Result<Answer, Refusal>,
}

impl Mapping<'_> {
    /// The root of each source, or why the job is not divided. Nothing is written before the state has the roots.
    pub(crate) fn roots(&self) -> Result<Vec<WorkRoot>, String> {
        let destination = self.order.destination;
        if let Some(root) = measure::root(self.order) {
            return Ok(vec![root]);
        }
        let text = |place: &Place| {
            String::from_utf8(place.below_exports())
                .map_err(|_error| "the name of a place is not UTF-8".to_owned())
        };
        let several = self.order.sources.len() > 1;
        let counterpart = self.order.base.kind == JobKind::Sync;
        let slashed = destination.directory || destination.contents;
        let below = text(destination)?;
        let is_there = self.is_directory(&below)?;
        // The leftovers of an earlier attempt do not change the meaning of the destination.
        let found = !counterpart && (several || slashed || is_there);
        let into = self.order.into.unwrap_or(found);
        (self.order.placed)(into);
        if into && !is_there {
            let question = Question::MakeDirectory(MakeDirectory {
                path: Text::from(below.as_str()),
                parents: false,
            });
            let made = (self.ask)(&question);
            made.map_err(|refusal| refusal.to_string())?;
        }
        let mut roots: Vec<WorkRoot> = Vec::new();
        for source in self.order.sources {
            let name = match source.path.rsplit(|byte| *byte == b'/').next() {
                Some(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
                _ => source.export.clone(),
            };
            let destination = match into && !source.contents {
                true => format!("{below}/{name}"),
                false => below.clone(),
            };
            let root = WorkRoot {
                source: text(source)?,
                file: None,
                destination,
                observation: Vec::new(),
            };
            let root = match self.look_at(&root) {
                Ok(observation) => WorkRoot {
                    observation,
                    ..root
                },
                Err(why) => self.file(&root).ok_or(why)?,
            };
            let path = |one: &WorkRoot| match &one.file {
                Some(name) => format!("{}/{name}", one.destination),
                None => one.destination.clone(),
            };
            if roots.iter().any(|one| path(one) == path(&root)) {
                return Err("two sources would get the same name".to_owned());
            }
            roots.push(root);
        }
        Ok(roots)
    }

    /// Whether the destination is an existing directory.
    fn is_directory(&self, below: &str) -> Result<bool, String> {
        // The root of an export exists.
        if !below.contains('/') {
            return Ok(true);
        }
        let question = Question::Stat {
            path: Text::from(below),
        };
        match (self.ask)(&question) {
            Ok(Answer::Entry(entry)) if entry.kind == EntryKind::Directory => Ok(true),
            Ok(_) => Err("the destination is no directory".to_owned()),
            Err(refusal) if refusal.code == code::NOT_FOUND => Ok(false),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    /// The source as one file, if it is a large file or one of several sources, its copy has its name, and the directory of the copy
    /// exists. One transfer copies any other source that is no directory.
    fn file(&self, root: &WorkRoot) -> Option<WorkRoot> {
        let (directory, name) = root.source.rsplit_once('/')?;
        let (below, copy) = root.destination.rsplit_once('/')?;
        let several = self.order.sources.len() > 1 && self.knows_closes();
        // The claim is for the whole directory, so other jobs into it wait. Several sources claim it anyway.
        let is_wanted = self.order.always || several;
        let is_copy = is_wanted && self.order.base.kind == JobKind::Copy && name == copy;
        if !is_copy || !self.is_directory(below).ok()? {
            return None;
        }
        let root = WorkRoot {
            source: directory.to_owned(),
            file: Some(name.to_owned()),
            destination: below.to_owned(),
            observation: Vec::new(),
        };
        let walk = self.walk(&root).ok()?;
        // The close of a small file also moves its data.
        if walk.large_file(name.as_bytes()).is_none()
            && !(several && walk.has_file(name.as_bytes()))
        {
            return None;
        }
        let observation = self.look_at(&root).ok()?;
        Some(WorkRoot {
            observation,
            ..root
        })
    }

    /// Whether the state keeps the closes of files in one directory apart.
    fn knows_closes(&self) -> bool {
        let level = Agreed(&self.node.replica.reader()).level();
        level.is_ok_and(|level| level >= LEVEL_CLOSES)
    }

    /// Identity of a source, as this node sees it.
    fn look_at(&self, root: &WorkRoot) -> Result<Vec<u64>, String> {
        let observation = self.walk(root)?.observe(None);
        observation.map_err(|failure| failure.message)
    }

    fn walk(&self, root: &WorkRoot) -> Result<Walk, String> {
        let way = ItemTransfer {
            base: &self.order.base,
            root,
            to: To::nowhere(),
            claim: self.order.claim,
            epoch: self.order.epoch,
        };
        let spec = way.members(Vec::new(), false);
        let walk = spec.and_then(|spec| {
            let env = (self.node.make_env)(&[]);
            Walk::open(&spec, &env, WalkLimits::default())
        });
        walk.map_err(|failure| failure.message)
    }
}
