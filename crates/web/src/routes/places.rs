//! Owns the routes about entries at places, of this node and of other sites.
//! Touches no file and dials no node: the node's asker does.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use godwit_api::ask::{
    Answer, CleanPlace, Cleaned, EntryView, ExportRoom, LIST_MAX, ListPlace, Listing,
    MakeDirectory, Question, RemovePlace, Removed, RenamePlace, code,
};
use godwit_api::failure::FailureCode;
use godwit_api::grant::Right;
use godwit_api::job::Text;
use godwit_api::rest::{
    CleanEntries, HERE, NewDirectory, Place, RemoveEntry, RenameEntry, whole_site,
};
use godwit_jobs::Granted;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Caller, Operator, Viewer};
use crate::errand::{Errand, ask, change, change_while, check_current};
use crate::extract::Body;
use crate::problem::ApiError;

/// Entries of a page, if the client names no number.
const PAGE_USUAL: u32 = 500;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(stat))
        .routes(routes!(space))
        .routes(routes!(make_directory))
        .routes(routes!(remove))
        .routes(routes!(rename))
        .routes(routes!(clean))
}

/// Selects a place.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what `Query` reads as bytes")]
struct PlaceQuery {
    /// Place, as `SITE:/EXPORT/PATH`; `SITE:/` is the site with all its exports.
    place: String,
}

/// Selects the exports of a site.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what `Query` reads as bytes")]
struct SpaceQuery {
    /// Place, as `SITE:/EXPORT/PATH`; `SITE:/` is the site with all its exports.
    place: String,
    /// Identity of the node that is asked: the first or an independent one of another site; default the first.
    identity: Option<String>,
}

/// Selects a page of a directory.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what `Query` reads as bytes")]
struct ListQuery {
    /// Directory, as `SITE:/EXPORT/PATH`.
    place: String,
    /// Cursor of the page: `next` of the page before.
    cursor: Option<String>,
    /// Entries of the page; default 500.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists a directory, sorted by the bytes of the names.
#[utoipa::path(get, path = "/places", tag = "places", params(ListQuery), responses((status = 200, body = Listing), Problems))]
async fn list(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Listing>, ApiError> {
    let mut query = Query::read(query.as_deref(), &["place", "cursor", "limit"])?;
    let place = place(&query.required("place")?)?;
    let limit = match query.take("limit") {
        Some(text) => Some(number(&text)?),
        None => None,
    };
    let limit = crate::extract::limit(limit, PAGE_USUAL, LIST_MAX)?;
    let question = Question::List(ListPlace {
        path: Text(place.below_exports()),
        cursor: query.take("cursor").map(Text),
        limit: u32::try_from(limit).unwrap_or(LIST_MAX),
    });
    match ask(&app, caller, vec![(place, Right::List)], question).await? {
        Answer::Listing(listing) => Ok(Json(listing)),
        _ => Err(other()),
    }
}

/// Shows one entry.
#[utoipa::path(get, path = "/places/stat", tag = "places", params(PlaceQuery), responses((status = 200, body = EntryView), Problems))]
async fn stat(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<EntryView>, ApiError> {
    let mut query = Query::read(query.as_deref(), &["place"])?;
    let place = place(&query.required("place")?)?;
    let path = Text(place.below_exports());
    let wishes = vec![(place, Right::List)];
    entry(ask(&app, caller, wishes, Question::Stat { path }).await?)
}

/// Lists the exports of a site with their free space, or only the export of the place. At another site only the usable exports
/// are listed.
#[utoipa::path(get, path = "/places/space", tag = "places", params(SpaceQuery), responses((status = 200, body = Vec<ExportRoom>), Problems))]
async fn space(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Vec<ExportRoom>>, ApiError> {
    let mut query = Query::read(query.as_deref(), &["place", "identity"])?;
    let text = query.required("place")?;
    let node = query.take("identity").map(String::from_utf8).transpose();
    let node = node.map_err(|error| bad(format!("identity: {error}")))?;
    let (site, export) = match whole_site(&text) {
        Some(site) => (site.to_owned(), None),
        None => {
            let place = place(&text)?;
            (place.site, Some(place.export))
        }
    };
    let (at, within, asker) = (site.clone(), export.clone(), caller.clone());
    let errand = Errand {
        site: site.clone(),
        node,
        question: Question::Exports {},
        line: None,
        allowed: move |app: &App| {
            let caller = asker.again(app)?;
            check_current(app, &caller)?;
            let granted = app.jobs.access().of(&caller.name, caller.role)?;
            if at != HERE {
                granted.check_site(&at, within.as_deref())?;
            }
            Ok(())
        },
    };
    let Answer::Exports(mut rooms) = errand.run(&app).await? else {
        return Err(other());
    };
    if site != HERE {
        let granted = app.run(move |app| {
            let caller = caller.again(app)?;
            Ok(app.jobs.access().of(&caller.name, caller.role)?)
        });
        rooms = rooms_of(&granted.await?, &site, rooms);
    }
    if let Some(export) = export {
        rooms.retain(|room| room.name == export);
        if rooms.is_empty() {
            return Err(ApiError::new(
                StatusCode::NOT_FOUND,
                code::NO_SUCH_EXPORT,
                format!(
                    "{site} has no export {export:?}, or this node or you have no rights there"
                ),
            ));
        }
    }
    Ok(Json(rooms))
}

/// Exports of another site that a user may use, with the rights of the node that the user has.
fn rooms_of(granted: &Granted, site: &str, rooms: Vec<ExportRoom>) -> Vec<ExportRoom> {
    let may = |export: &str, right| granted.allows_in(site, export, right);
    let is_seen = |room: &ExportRoom| Right::ALL.iter().any(|right| may(&room.name, *right));
    let rooms = rooms.into_iter().filter(is_seen);
    rooms
        .map(|room| ExportRoom {
            read: room.read && may(&room.name, Right::Read),
            write: room.write && may(&room.name, Right::Write),
            ..room
        })
        .collect()
}

/// Makes a directory.
#[utoipa::path(post, path = "/places/mkdir", tag = "places", request_body = NewDirectory, responses((status = 200, body = EntryView), Problems))]
async fn make_directory(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(new): Body<NewDirectory>,
) -> Result<Json<EntryView>, ApiError> {
    let place = place(&new.place.0)?;
    if new.parents {
        check_above(&app, &caller, &place).await?;
    }
    let question = Question::MakeDirectory(MakeDirectory {
        path: Text(place.below_exports()),
        parents: new.parents,
    });
    let wishes = vec![(place, Right::Write)];
    entry(change(&app, caller, "place_mkdir", wishes, question).await?)
}

/// Refuses missing directories above a place that the caller may not make.
async fn check_above(app: &Arc<App>, caller: &Caller, place: &Place) -> Result<(), ApiError> {
    let (asker, below) = (caller.clone(), place.clone());
    let found = app.run(move |app| {
        let caller = asker.again(app)?;
        let granted = app.jobs.access().of(&caller.name, caller.role)?;
        granted.check(&below, Right::Write)?;
        let above = above(&below).find(|above| !granted.allows(above, Right::Write));
        Ok(above)
    });
    let Some(above) = found.await? else {
        return Ok(());
    };
    let path = Text(above.below_exports());
    let wishes = vec![(place.clone(), Right::Write)];
    match ask(app, caller.clone(), wishes, Question::Stat { path }).await {
        Err(error) if error.code().is_one_of(&[code::NOT_FOUND]) => Err(ApiError::forbidden(
            FailureCode::NotGranted,
            format!(
                "{place}: a directory above it does not exist, and {} may not make that directory",
                caller.name
            ),
        )),
        // The site lets this node list nothing there, so the site decides by the rights of this node.
        Err(error) if error.code().is_one_of(&[code::NOT_GRANTED]) => Ok(()),
        seen => seen.map(drop),
    }
}

/// The directories above a place within its export, the lowest one first.
fn above(place: &Place) -> impl Iterator<Item = Place> {
    let mut path = place.path.clone();
    let place = place.clone();
    std::iter::from_fn(move || {
        let slash = path.iter().rposition(|byte| *byte == b'/')?;
        path.truncate(slash);
        Some(Place {
            path: path.clone(),
            ..place.clone()
        })
    })
}

/// Removes an entry. The removal stops early when its client closes the connection.
#[utoipa::path(post, path = "/places/remove", tag = "places", request_body = RemoveEntry, responses((status = 200, body = Removed), Problems))]
async fn remove(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(wish): Body<RemoveEntry>,
) -> Result<Json<Removed>, ApiError> {
    let place = place(&wish.place.0)?;
    let question = Question::Remove(RemovePlace {
        path: Text(place.below_exports()),
        recursive: wish.recursive,
    });
    let wishes = vec![(place.clone(), Right::Delete)];
    match change(&app, caller.clone(), "place_remove", wishes, question).await? {
        Answer::Removed(removed) => Ok(Json(match lists(&app, caller, place).await {
            true => removed,
            false => removed.without_names(),
        })),
        _ => Err(other()),
    }
}

/// Renames an entry within its export.
#[utoipa::path(post, path = "/places/rename", tag = "places", request_body = RenameEntry, responses((status = 200, body = EntryView), Problems))]
async fn rename(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(wish): Body<RenameEntry>,
) -> Result<Json<EntryView>, ApiError> {
    let (from, to_place) = (place(&wish.from.0)?, place(&wish.to.0)?);
    if from.site != to_place.site {
        return Err(ApiError::invalid(format!(
            "{from} and {to_place} are at different sites; copy with a job, then remove the source"
        )));
    }
    let question = Question::Rename(RenamePlace {
        from: Text(from.below_exports()),
        to: Text(to_place.below_exports()),
        replace: wish.replace,
    });
    let from = RenamePlace::FROM.map(|right| (from.clone(), right));
    let to = RenamePlace::to(wish.replace).iter();
    let wishes = from
        .into_iter()
        .chain(to.map(|right| (to_place.clone(), *right)));
    let wishes = wishes.collect();
    entry(change(&app, caller, "place_rename", wishes, question).await?)
}

/// Removes temporary files that no journal claims, or those of one job.
#[utoipa::path(post, path = "/places/clean", tag = "places", request_body = CleanEntries, responses((status = 200, body = Cleaned), Problems))]
async fn clean(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(wish): Body<CleanEntries>,
) -> Result<Json<Cleaned>, ApiError> {
    let job = wish.job.clone();
    let (place, question) = match wish.job {
        None => {
            let place = place(&wish.place.0)?;
            let path = Text(place.below_exports());
            let question = CleanPlace {
                path,
                older_than_seconds: wish.older_than_seconds,
                ..CleanPlace::default()
            };
            (place, question)
        }
        Some(job) if wish.place.0.is_empty() => {
            let caller = caller.clone();
            app.run(move |app| {
                let caller = caller.again(app)?;
                let access = app.jobs.access();
                Ok(access.left_by(&caller.name, caller.role, &job)?)
            })
            .await?
        }
        Some(_) => {
            let what =
                "place: leave the place out if a job is given; the job's destination is used";
            return Err(ApiError::invalid(what.to_owned()));
        }
    };
    let question = Question::Clean(CleanPlace {
        dry_run: wish.dry_run,
        ..question
    });
    let wishes = vec![(place.clone(), Right::Delete)];
    // Until the site is asked, another site may get its name.
    let is_meant = move |app: &App, caller: &Caller| match &job {
        Some(job) => {
            let access = app.jobs.access();
            access.left_by(&caller.name, caller.role, job)?;
            Ok(())
        }
        None => Ok(()),
    };
    let (action, by) = ("place_clean", caller.clone());
    match change_while(&app, by, action, wishes, question, is_meant).await? {
        Answer::Cleaned(cleaned) => Ok(Json(match lists(&app, caller, place).await {
            true => cleaned,
            false => cleaned.without_names(),
        })),
        _ => Err(other()),
    }
}

/// Whether the caller may see the names below a place of a change.
async fn lists(app: &Arc<App>, caller: Caller, place: Place) -> bool {
    let allowed = app.run(move |app| {
        let caller = caller.again(app)?;
        let granted = app.jobs.access().of(&caller.name, caller.role)?;
        Ok(granted.allows(&place, Right::List))
    });
    allowed.await.unwrap_or(false)
}

pub(super) fn place(text: &[u8]) -> Result<Place, ApiError> {
    Place::from_bytes(text).map_err(|error| ApiError::invalid(format!("place: {error}")))
}

fn entry(answer: Answer) -> Result<Json<EntryView>, ApiError> {
    match answer {
        Answer::Entry(entry) => Ok(Json(entry)),
        _ => Err(other()),
    }
}

/// Error for an answer of the wrong kind.
fn other() -> ApiError {
    let detail = "the site answered a different question; ask the site's operator for its version";
    ApiError::new(StatusCode::BAD_GATEWAY, code::BROKEN, detail)
}

/// The parameters of a query as bytes: names of files need not be UTF-8.
pub(super) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    pub(super) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        let parts = query.unwrap_or_default().split('&');
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !known.contains(&name) || pairs.iter().any(|(before, _)| before == name) {
                return Err(bad(format!(
                    "{name:?} is not a parameter here, or is given twice; the parameters are: {}",
                    known.join(", ")
                )));
            }
            let value = unescaped(value)
                .ok_or_else(|| bad(format!("{name}: {value:?} has a % without two digits")))?;
            pairs.push((name.to_owned(), value));
        }
        Ok(Self(pairs))
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    pub(super) fn required(&mut self, name: &str) -> Result<Vec<u8>, ApiError> {
        self.take(name)
            .ok_or_else(|| bad(format!("the parameter {name} is missing")))
    }
}

fn bad(detail: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, FailureCode::BadQuery, detail)
}

pub(super) fn number(text: &[u8]) -> Result<u32, ApiError> {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| bad("limit: not an allowed whole number".to_owned()))
}

/// The bytes of a value in a query.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_query_may_be_any_bytes() {
        assert_eq!(unescaped("a%2Fb+c%ff"), Some(b"a/b c\xff".to_vec()));
        for wrong in ["%", "%2", "%zz"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
    }
}
