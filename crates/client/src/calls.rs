//! The routes of the API, each as a call with its documents.
//! Decides nothing: the node interprets the calls.

use godwit_api::rest::{
    AttemptView, CancelJob, ChangeJob, ExportView, FailureGroup, JobList, JobState, JobView,
    LogPage, NewJob, NewSite, NewToken, NewUser, NodeView, SiteView, TokenCreated, TokenView,
    UserView, WorkView,
};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::Clusters;
use crate::download::Download;
use crate::error::ClientError;
use crate::http::Ask;
use crate::transport::Client;

/// The path prefix of the API.
pub(crate) const BASE: &str = "/api/v1";

/// Number of jobs on a page: the largest page that a node returns.
const PAGE_JOBS: usize = 1_000;

/// Length of a complete job id.
const ID_SIGNS: usize = 11;

/// Number of matching ids that are named if a shortened id is ambiguous.
const EXAMPLES_MAX: usize = 4;

/// Filter for a list of jobs; an empty filter lists all.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only jobs in one of these states; empty means any state.
    pub states: Vec<JobState>,
    /// Only jobs whose id begins with this text.
    pub id_prefix: Option<String>,
    /// Only jobs of this user.
    pub owner: Option<String>,
    /// Only jobs to or from this site.
    pub site: Option<String>,
    /// Only jobs whose label contains this text.
    pub label: Option<String>,
    /// Only the destinations of the job with this id.
    pub parent: Option<String>,
}

/// An action on a job that needs no request body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Steer {
    /// Pauses the job.
    Pause,
    /// Resumes a paused job.
    Resume,
    /// Makes a job try again at once.
    Retry,
}

/// The calls about jobs.
#[derive(Clone, Copy)]
pub struct Jobs<'a>(&'a Client);

/// The calls about sites.
#[derive(Clone, Copy)]
pub struct Sites<'a>(&'a Client);

/// The calls about users.
#[derive(Clone, Copy)]
pub struct Users<'a>(&'a Client);

/// The calls about tokens.
#[derive(Clone, Copy)]
pub struct Tokens<'a>(&'a Client);

impl Client {
    /// The node, and the caller's account as the node sees it.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn node(&self) -> Result<NodeView, ClientError> {
        self.get("/node")
    }

    /// The exports of the node.
    ///
    /// # Errors
    /// As [`Client::node`].
    pub fn exports(&self) -> Result<Vec<ExportView>, ClientError> {
        self.get("/exports")
    }

    /// The calls about jobs.
    #[must_use]
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs(self)
    }

    /// The calls about sites.
    #[must_use]
    pub fn sites(&self) -> Sites<'_> {
        Sites(self)
    }

    /// The calls about the cluster.
    #[must_use]
    pub fn cluster(&self) -> Clusters<'_> {
        Clusters(self)
    }

    /// The calls about users.
    #[must_use]
    pub fn users(&self) -> Users<'_> {
        Users(self)
    }

    /// The calls about tokens.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens(self)
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(Ask::get(format!("{BASE}{path}")))
    }

    pub(crate) fn with<D: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        document: &D,
    ) -> Result<T, ClientError> {
        self.call(Ask::new(method, format!("{BASE}{path}")).document(document))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.send(Ask::new(Method::DELETE, format!("{BASE}{path}")))
    }

    /// Sends a request whose answer has no body.
    pub(crate) fn send(&self, ask: Ask) -> Result<(), ClientError> {
        self.block_on(self.target.exchange(ask)).map(|_body| ())
    }

    pub(crate) fn call<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, ClientError> {
        let body = self.block_on(self.target.exchange(ask))?;
        self.target.parse(&body)
    }
}

impl Jobs<'_> {
    /// Submits a job. If no answer arrives, the request is sent once more. The key keeps a second job from being made.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn submit(&self, job: &NewJob, key: &str) -> Result<JobView, ClientError> {
        let ask = || {
            Ask::new(Method::POST, format!("{BASE}/jobs"))
                .document(job)
                .header("idempotency-key", key)
        };
        match self.0.call(ask()) {
            Err(ClientError::Broken { .. } | ClientError::TimedOut { .. }) => self.0.call(ask()),
            other => other,
        }
    }

    /// The newest jobs that match the filter, no more than `most`.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn list(&self, filter: &JobFilter, most: usize) -> Result<Vec<JobView>, ClientError> {
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        while found.len() < most {
            let wanted = (most - found.len()).min(PAGE_JOBS);
            let page = self.page(filter, cursor.as_deref(), wanted)?;
            found.extend(page.jobs);
            match page.next {
                // A node that returns the same page again and again is not asked forever.
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => break,
            }
        }
        found.truncate(most);
        Ok(found)
    }

    fn page(
        &self,
        filter: &JobFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<JobList, ClientError> {
        let states: Vec<String> = filter.states.iter().map(|state| word(*state)).collect();
        let states = states.join(",");
        let limit = limit.to_string();
        let wishes = [
            ("state", (!states.is_empty()).then_some(states.as_str())),
            ("id", filter.id_prefix.as_deref()),
            ("owner", filter.owner.as_deref()),
            ("site", filter.site.as_deref()),
            ("label", filter.label.as_deref()),
            ("parent", filter.parent.as_deref()),
            ("cursor", cursor),
            ("limit", Some(limit.as_str())),
        ];
        let query: Vec<String> = wishes
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", escaped(value?))))
            .collect();
        self.0.get(&format!("/jobs?{}", query.join("&")))
    }

    /// The job with this id, or the only job whose id begins with it.
    ///
    /// # Errors
    /// As [`Jobs::submit`]; also if several ids begin with it.
    pub fn find(&self, id: &str) -> Result<JobView, ClientError> {
        let id = id.to_ascii_lowercase();
        let unknown = match self.get(&id) {
            Err(error) if error.status() == Some(404) && id.len() < ID_SIGNS => error,
            other => return other,
        };
        let filter = JobFilter {
            id_prefix: Some(id.clone()),
            ..JobFilter::default()
        };
        let mut fitting = self.list(&filter, EXAMPLES_MAX)?;
        match fitting.len() {
            0 => Err(unknown),
            1 => Ok(fitting.remove(0)),
            _ => Err(ClientError::Ambiguous {
                prefix: id,
                examples: fitting.into_iter().map(|job| job.id).collect(),
            }),
        }
    }

    /// The job with this id.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn get(&self, id: &str) -> Result<JobView, ClientError> {
        self.0.get(&format!("/jobs/{}", escaped(id)))
    }

    /// Changes the settings of a job.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn change(&self, id: &str, change: &ChangeJob) -> Result<JobView, ClientError> {
        let path = format!("/jobs/{}", escaped(id));
        self.0.with(Method::PATCH, &path, change)
    }

    /// Pauses, resumes or retries a job.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn steer(&self, id: &str, what: Steer) -> Result<JobView, ClientError> {
        let verb = match what {
            Steer::Pause => "pause",
            Steer::Resume => "resume",
            Steer::Retry => "retry",
        };
        let path = format!("{BASE}/jobs/{}/{verb}", escaped(id));
        self.0.call(Ask::new(Method::POST, path))
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn cancel(&self, id: &str, why: &CancelJob) -> Result<JobView, ClientError> {
        let path = format!("/jobs/{}/cancel", escaped(id));
        self.0.with(Method::POST, &path, why)
    }

    /// The job as it was submitted.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn description(&self, id: &str) -> Result<NewJob, ClientError> {
        self.0.get(&format!("/jobs/{}/description", escaped(id)))
    }

    /// The attempts of a job.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn attempts(&self, id: &str) -> Result<Vec<AttemptView>, ClientError> {
        self.0.get(&format!("/jobs/{}/attempts", escaped(id)))
    }

    /// The failed entries of a job, by reason.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn failures(&self, id: &str) -> Result<Vec<FailureGroup>, ClientError> {
        self.0.get(&format!("/jobs/{}/failures", escaped(id)))
    }

    /// A page of the log after the line with the number `after`. The page behind the last line is empty.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn log(&self, id: &str, after: u64, limit: usize) -> Result<LogPage, ClientError> {
        let id = escaped(id);
        self.0
            .get(&format!("/jobs/{id}/log?after={after}&limit={limit}"))
    }

    /// The work of a divided job; `None` if the job has no work now, or the node does not know it.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn work(&self, id: &str) -> Result<Option<WorkView>, ClientError> {
        match self.0.get(&format!("/jobs/{}/work", escaped(id))) {
            Ok(work) => Ok(Some(work)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All facts known about a job, as one document: a `JobReport`, or a JSON value with all fields that a newer node sends.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn report<T: DeserializeOwned>(&self, id: &str) -> Result<T, ClientError> {
        self.0.get(&format!("/jobs/{}/report", escaped(id)))
    }

    /// The manifest that a job wrote, read in pieces.
    ///
    /// # Errors
    /// As [`Jobs::submit`]; also if there is no manifest.
    pub fn manifest(&self, id: &str) -> Result<Download<'_>, ClientError> {
        let path = format!("{BASE}/jobs/{}/manifest", escaped(id));
        self.0.download(path)
    }

    /// The report as an HTML page.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub fn report_page(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        let path = format!("{BASE}/jobs/{}/report.html", escaped(id));
        let ask = Ask::get(path).header("accept", "text/html");
        let body = self.0.block_on(self.0.target.exchange(ask))?;
        Ok(body.to_vec())
    }
}

impl Sites<'_> {
    /// All sites.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<SiteView>, ClientError> {
        self.0.get("/sites")
    }

    /// Adds or replaces a site.
    ///
    /// # Errors
    /// As [`Sites::list`].
    pub fn put(&self, name: &str, site: &NewSite) -> Result<SiteView, ClientError> {
        let path = format!("/sites/{}", escaped(name));
        self.0.with(Method::PUT, &path, site)
    }

    /// Removes a site.
    ///
    /// # Errors
    /// As [`Sites::list`].
    pub fn remove(&self, name: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/sites/{}", escaped(name)))
    }
}

impl Users<'_> {
    /// All users.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<UserView>, ClientError> {
        self.0.get("/users")
    }

    /// Adds or replaces a user.
    ///
    /// # Errors
    /// As [`Users::list`].
    pub fn put(&self, name: &str, user: &NewUser) -> Result<UserView, ClientError> {
        let path = format!("/users/{}", escaped(name));
        self.0.with(Method::PUT, &path, user)
    }

    /// Removes a user.
    ///
    /// # Errors
    /// As [`Users::list`].
    pub fn remove(&self, name: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/users/{}", escaped(name)))
    }
}

impl Tokens<'_> {
    /// The tokens that the caller may see.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<TokenView>, ClientError> {
        self.0.get("/tokens")
    }

    /// Makes a token.
    ///
    /// # Errors
    /// As [`Tokens::list`].
    pub fn create(&self, token: &NewToken) -> Result<TokenCreated, ClientError> {
        self.0.with(Method::POST, "/tokens", token)
    }

    /// Ends a token.
    ///
    /// # Errors
    /// As [`Tokens::list`].
    pub fn revoke(&self, id: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/tokens/{}", escaped(id)))
    }
}

/// A new key for a submission.
///
/// # Errors
/// The system provides no random numbers.
pub fn idempotency_key() -> Result<String, ClientError> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random)
        .map_err(|error| ClientError::Setup(format!("no random numbers: {error}")))?;
    Ok(data_encoding::HEXLOWER.encode(&random))
}

/// The name of a state in the API.
fn word(state: JobState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(word)) => word,
        // Not reached: a state is always a string.
        _ => String::new(),
    }
}

/// A text, escaped as a part of a path or a query.
pub(crate) fn escaped(text: &str) -> String {
    escaped_bytes(text.as_bytes())
}

/// Bytes, escaped as a part of a path or a query.
pub(crate) fn escaped_bytes(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            out.push(char::from(byte));
        } else if byte == b'.' && text != b"." && text != b".." {
            out.push('.');
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_part_of_a_path() {
        for (text, path) in [
            ("0abc", "0abc"),
            ("a/b?c=d&e#f", "a%2Fb%3Fc%3Dd%26e%23f"),
            ("..", "%2E%2E"),
            ("a.b", "a.b"),
            ("ä\n", "%C3%A4%0A"),
        ] {
            assert_eq!(escaped(text), path, "{text}");
        }
    }
}
