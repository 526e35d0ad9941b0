//! Owns which nodes of this cluster have asked another site to run a job: the noted one, and those of earlier attempts.
//! Asks no node.

use godwit_api::grant::Mandate;
use godwit_state::{Agreed, Job, Node};

use crate::basis::cluster::Cluster;
use crate::basis::error::JobsError;
use crate::rights::Rights;

/// The mandate of the node by which a site knows the job, from the state. That node may have left the cluster.
pub(crate) fn noted(rights: &Rights, job: &Job) -> Result<Option<Mandate>, JobsError> {
    let noted = Agreed(&rights.this.reader()).asker(&job.id)?;
    let own = asker(&rights.cluster, None);
    let noted = noted.filter(|noted| own.as_ref() != Some(noted));
    Ok(noted.map(|asker| Mandate {
        asker,
        job: job.id.clone(),
    }))
}

/// The node under whose identity a site knows the job: this node, or the node of the mandate.
pub(crate) fn asker(cluster: &Cluster, mandate: Option<&Mandate>) -> Option<String> {
    match mandate {
        Some(mandate) => Some(mandate.asker.clone()),
        None => cluster.own().map(|own| own.identity),
    }
}

/// The mandates of all other nodes by which a site may know the job: the noted one, then the nodes of earlier attempts, the latest first.
pub(crate) fn askers(rights: &Rights, job: &Job) -> Result<Vec<Mandate>, JobsError> {
    let reader = rights.this.reader();
    let mut mandates: Vec<Mandate> = noted(rights, job)?.into_iter().collect();
    let own = &rights.this.name;
    for attempt in reader.attempts(&job.id)?.into_iter().rev() {
        if attempt.node == *own {
            continue;
        }
        let mandate = reader.object::<Node>(&attempt.node)?.map(|row| Mandate {
            asker: row.identity,
            job: job.id.clone(),
        });
        mandates.extend(mandate.filter(|mandate| !mandates.contains(mandate)));
    }
    Ok(mandates)
}
