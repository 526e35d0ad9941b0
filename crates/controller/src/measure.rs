//! Jobs that go from memory to memory (`mem:SIZE` to `null:`): their root, and the transfer of a share of the bytes.
//! Runs nothing. The bytes are one file that is cut into parts; no byte is stored, so the parts need no claim and no digest.

use godwit_api::PORT_DEFAULT;
use godwit_api::endpoint::{Endpoint, NodePlace, Remote, is_memory};
use godwit_api::failure::Failure;
use godwit_api::host::HostPort;
use godwit_api::job::{JOB_VERSION, JobKind, JobSpec};
use godwit_state::{Looked, WorkRoot};

use crate::Order;
use crate::batch::{Base, To, copy_settings, of_one_try};

/// The name of the bytes among the items of the job, and in place of the digest of each part.
pub(crate) const BYTES: &str = "memory";

/// The root of a job from memory to memory; None for any other job.
pub(crate) fn root(order: &Order<'_>) -> Option<WorkRoot> {
    let [source] = order.sources else {
        return None;
    };
    source.memory_bytes()?;
    order.destination.is_memory().then(|| WorkRoot {
        source: source.export.clone(),
        file: None,
        destination: order.destination.export.clone(),
        observation: Vec::new(),
    })
}

/// Whether a root is memory.
pub(crate) fn measures(root: &WorkRoot) -> bool {
    is_memory(&root.source)
}

/// The bytes of a root that is memory.
pub(crate) fn bytes_of(root: &WorkRoot) -> Result<u64, Failure> {
    match NodePlace::from_wire(root.source.as_bytes()) {
        Ok(NodePlace::Memory { bytes }) => Ok(bytes),
        _ => Err(Failure::usage("the job has no such root")),
    }
}

/// The work of such a job: one file of these bytes.
pub(crate) fn found(bytes: u64) -> Looked {
    Looked {
        found_files: 1,
        found_bytes: bytes,
        ..Looked::default()
    }
}

/// A transfer of this number of bytes from memory.
pub(crate) fn memory_transfer(base: &Base, to: &To, bytes: u64) -> Result<JobSpec, Failure> {
    let node = HostPort::parse(&to.address, PORT_DEFAULT).map_err(Failure::usage)?;
    let place = NodePlace::Null;
    Ok(JobSpec {
        version: JOB_VERSION,
        kind: JobKind::Copy,
        sources: vec![Endpoint::Memory { bytes }],
        destination: Endpoint::Remote(Remote { node, place }),
        settings: copy_settings(base),
        selection: None,
        member: None,
        items: Vec::new(),
        imposed: of_one_try(to),
    })
}
