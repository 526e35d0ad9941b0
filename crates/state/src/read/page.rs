//! Owns pages of jobs: filters, cursors, and their SQL statements, which use an index.
//! Does not read single jobs: `jobs` does.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::Reader;
use super::by_id::behind;
use super::row::{self, JOB_COLUMNS};
use crate::apply::SITE;
use crate::bounds::PAGE_ROWS_MAX;
use crate::fault::Fault;
use crate::model::{Child, Job, JobState, Object as _, Timestamp};

/// Selects jobs. Each part that is set restricts the list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JobFilter {
    /// States; empty is all.
    pub states: Vec<JobState>,
    /// Prefix of the id.
    pub id_prefix: Option<String>,
    /// Owner.
    pub owner: Option<String>,
    /// Site of a source or of the destination.
    pub site: Option<String>,
    /// Substring of the label; case-sensitive.
    pub label: Option<String>,
    /// Parent of a child.
    pub parent: Option<String>,
    /// Submitted at this time or later.
    pub since: Option<Timestamp>,
    /// Submitted before this time.
    pub until: Option<Timestamp>,
    /// Excludes the jobs of other sites.
    pub of_users: bool,
    /// Most bytes of places, labels, reasons and summaries of a page. A page has at least one job.
    pub bytes_max: Option<usize>,
}

impl JobFilter {
    /// The jobs that nodes are running.
    #[must_use]
    pub fn moving() -> Self {
        Self {
            states: JobState::ALL
                .into_iter()
                .filter(|state| state.moves())
                .collect(),
            ..Self::default()
        }
    }
}

/// End of a page: the next page starts after that job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cursor {
    created: Timestamp,
    id: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.created.0, self.id)
    }
}

impl FromStr for Cursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .split_once('.')
            .and_then(|(created, id)| Some((created.parse().ok()?, id)));
        let (created, id) = parts.ok_or("not a cursor of a page")?;
        Ok(Self {
            created: Timestamp(created),
            id: id.to_owned(),
        })
    }
}

/// One page of jobs, the newest first.
#[derive(Clone, Debug)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Start of the next page; `None` after the last page.
    pub next: Option<Cursor>,
}

impl Reader {
    /// The jobs that match `filter`, after `cursor`, at most `limit`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn jobs(
        &self,
        filter: &JobFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<JobPage, Fault> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let (mut jobs, cut) = self.with(|db| select(db, filter, cursor, limit + 1))?;
        let more = cut || jobs.len() > limit;
        jobs.truncate(limit);
        let next = jobs.last().filter(|_| more).map(|job| Cursor {
            created: job.created,
            id: job.id.clone(),
        });
        Ok(JobPage { jobs, next })
    }
}

/// Bytes of the parts that users and other sites choose.
fn bytes_of(job: &Job) -> usize {
    let places = job.sources.iter().chain([&job.destination]);
    let places = places.map(|place| place.site.len() + place.path.len());
    let summary = job.summary.as_ref().map_or(0, String::len);
    let reason = job.reason.as_ref().map_or(0, |reason| reason.text.len());
    job.label.len() + places.sum::<usize>() + summary + reason
}

/// Finds ids by an index that contains all filtered columns, by one search for each state if that helps, and then reads those jobs.
/// Returns whether there are more jobs, including those beyond the bytes of the page.
fn select(
    db: &Connection,
    filter: &JobFilter,
    cursor: Option<&Cursor>,
    limit: usize,
) -> rusqlite::Result<(Vec<Job>, bool)> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values: Vec<Value> = Vec::new();
    let mut states = filter.states.clone();
    states.sort();
    states.dedup();
    // By site and by id, one search covers all states, because those indexes are not ordered by state.
    let in_one = states.is_empty()
        || filter.site.is_some()
        || filter.id_prefix.is_some()
        || filter.parent.is_some();
    let searches: Vec<&[JobState]> = if in_one {
        vec![&states]
    } else {
        states.chunks(1).collect()
    };
    let mut sql = String::new();
    for states in searches {
        if !sql.is_empty() {
            sql.push_str(" UNION ALL ");
        }
        search(&mut sql, &mut values, filter, states, cursor);
        values.push(Value::Integer(limit));
        let _ = write!(sql, " LIMIT ?{})", values.len());
    }
    values.push(Value::Integer(limit));
    let sql = format!(
        "SELECT {JOB_COLUMNS} FROM jobs WHERE id IN (SELECT id FROM ({sql}) ORDER BY created DESC, id DESC LIMIT ?{}) \
         ORDER BY created DESC, id DESC",
        values.len()
    );
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), row::job)?;
    let (mut jobs, mut bytes) = (Vec::new(), 0);
    for job in rows {
        let job = job?;
        bytes += bytes_of(&job);
        if !jobs.is_empty() && filter.bytes_max.is_some_and(|most| bytes > most) {
            return Ok((jobs, true));
        }
        jobs.push(job);
    }
    Ok((jobs, false))
}

/// One search in the order of the page, without its limit and the last bracket.
fn search(
    sql: &mut String,
    values: &mut Vec<Value>,
    filter: &JobFilter,
    states: &[JobState],
    cursor: Option<&Cursor>,
) {
    let mut bind = |value: Value| {
        values.push(value);
        format!("?{}", values.len())
    };
    let mut conditions = Vec::new();
    let (table, created, id) = if let Some(parent) = &filter.parent {
        let kind = bind(Value::Text(Child::KIND.to_owned()));
        conditions.push(format!("c.kind = {kind}"));
        conditions.push(format!("c.lookup = {}", bind(Value::Text(parent.clone()))));
        if let Some(site) = &filter.site {
            conditions.push(format!(
                "j.id IN (SELECT job FROM job_sites WHERE site = {})",
                bind(Value::Text(site.clone()))
            ));
        }
        (
            "objects c CROSS JOIN jobs j ON j.id = c.id",
            "j.created",
            "j.id",
        )
    } else if let Some(site) = &filter.site {
        conditions.push(format!("s.site = {}", bind(Value::Text(site.clone()))));
        (
            "job_sites s CROSS JOIN jobs j ON j.id = s.job",
            "s.created",
            "s.job",
        )
    } else if filter.id_prefix.is_some() {
        // In the order of the primary key.
        ("jobs j NOT INDEXED", "j.created", "j.id")
    } else if !states.is_empty() {
        ("jobs j INDEXED BY jobs_state", "j.created", "j.id")
    } else if filter.owner.is_some() {
        ("jobs j INDEXED BY jobs_owner", "j.created", "j.id")
    } else {
        ("jobs j INDEXED BY jobs_page", "j.created", "j.id")
    };
    if !states.is_empty() {
        let names: Vec<String> = states
            .iter()
            .map(|state| bind(Value::Text(state.name().to_owned())))
            .collect();
        conditions.push(format!("j.state IN ({})", names.join(", ")));
    }
    if let Some(prefix) = &filter.id_prefix {
        let first = bind(Value::Text(prefix.clone()));
        let last = bind(Value::Text(behind(prefix)));
        conditions.push(format!("{id} >= {first} AND {id} < {last}"));
    }
    if let Some(owner) = &filter.owner {
        conditions.push(format!("j.owner = {}", bind(Value::Text(owner.clone()))));
    }
    if filter.of_users {
        conditions.push(format!("substr(j.owner, 1, {}) <> '{SITE}'", SITE.len()));
    }
    if let Some(label) = &filter.label {
        conditions.push(format!(
            "instr(j.label, {}) > 0",
            bind(Value::Text(label.clone()))
        ));
    }
    if let Some(since) = filter.since {
        conditions.push(format!("{created} >= {}", bind(Value::Integer(since.0))));
    }
    if let Some(until) = filter.until {
        conditions.push(format!("{created} < {}", bind(Value::Integer(until.0))));
    }
    if let Some(cursor) = cursor {
        let time = bind(Value::Integer(cursor.created.0));
        let after = bind(Value::Text(cursor.id.clone()));
        conditions.push(format!("({created}, {id}) < ({time}, {after})"));
    }
    let place = if conditions.is_empty() {
        String::new()
    } else {
        format!("WHERE {}", conditions.join(" AND "))
    };
    let _ = write!(
        sql,
        "SELECT * FROM (SELECT {id} AS id, {created} AS created FROM {table} {place} \
         ORDER BY {created} DESC, {id} DESC"
    );
}
