//! Describes the transfer that finishes a region of a tree.
//! Runs nothing, and chooses no region.

use godwit_api::failure::Failure;
use godwit_api::job::{JobSpec, ListForm, Region};

use super::ItemTransfer;

impl ItemTransfer<'_> {
    /// The transfer that finishes a region, whose directories its list names, too.
    pub(crate) fn region(&self, region: &Region, deletes: bool) -> Result<JobSpec, Failure> {
        let mut spec = self.close(deletes)?;
        let chosen = spec.selection.get_or_insert_default();
        chosen.list = Some(ListForm::Zeros);
        chosen.recursive = !region.flat;
        if let Some(member) = &mut spec.member {
            member.region = Some(region.clone());
        }
        Ok(spec)
    }
}

/// The list of the directories of a region: each name ends with a slash and a zero byte.
pub(crate) fn names_of(region: &Region) -> Vec<u8> {
    let mut names = Vec::new();
    for path in &region.within {
        names.extend_from_slice(if path.0.is_empty() { b"." } else { &path.0 });
        names.extend_from_slice(b"/\0");
    }
    names
}
