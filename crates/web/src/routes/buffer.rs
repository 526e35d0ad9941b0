//! Owns the routes about the transfer buffers of this node and its cluster: figures, files, pins and drops.
//! Checks rights here for all nodes, and leaves the rest to the buffers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use godwit_api::ask::BufferQuestion;
use godwit_api::grant::Right;
use godwit_api::job::Text;
use godwit_api::rest::{
    BufferChanged, BufferFiles, BufferView, DropFromBuffer, HERE, KeepInBuffer, Place, RetryDrain,
};
use godwit_state::{AuditEntry, AuditOutcome, Op, Role};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use super::places::{Query, number, place};
use crate::app::App;
use crate::buffers::{self, Answers, answer_of};
use crate::caller::{Caller, Operator, Viewer};
use crate::errand::check_current;
use crate::extract::Body;
use crate::problem::ApiError;
use crate::refusals::cut;

/// Files of a page, if the client names no number.
const PAGE_USUAL: u32 = 500;
const PAGE_MAX: u32 = 1000;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(files))
        .routes(routes!(keep))
        .routes(routes!(drop_files))
        .routes(routes!(retry))
}

/// Selects a page of the files at and below a place.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what `Query` reads as bytes")]
struct FilesQuery {
    /// A place of this node, as `here:/EXPORT/PATH`.
    place: String,
    /// Cursor of the page: `next` of the page before.
    cursor: Option<String>,
    /// Files of the page; default 500.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only files that have arrived, and are not at their export yet.
    waiting: Option<bool>,
}

/// Shows the transfer buffer of this node, and a row for each node of its cluster.
#[utoipa::path(get, path = "/buffer", tag = "buffer", responses((status = 200, body = BufferView), Problems))]
async fn show(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<BufferView>, ApiError> {
    app.run_at_places(move |app| {
        let caller = caller.again(app)?;
        let buffer = app.node.buffer.as_ref();
        let mut view = buffer.map(|buffer| buffer.view()).unwrap_or_default();
        let others = others(app, &BufferQuestion::View {});
        view.nodes = buffers::nodes(&app.node.name, &view, others);
        if caller.role != Role::Admin {
            for volume in &mut view.volumes {
                volume.path = None;
                volume.reason = volume.reason.take().filter(|_| volume.state != CLOSED);
            }
        }
        Ok(Json(view))
    })
    .await
}

/// The answers of the other nodes.
fn others(app: &App, question: &BufferQuestion) -> Answers {
    let mates = app.node.mates.as_ref();
    mates.map(|mates| mates.ask(question)).unwrap_or_default()
}

/// The state of a volume that the node could not open.
pub(crate) const CLOSED: &str = "closed";

/// Lists the files in the buffers of the cluster at and below a place.
#[utoipa::path(get, path = "/buffer/files", tag = "buffer", params(FilesQuery), responses((status = 200, body = BufferFiles), Problems))]
async fn files(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<BufferFiles>, ApiError> {
    let mut query = Query::read(query.as_deref(), &["place", "cursor", "limit", "waiting"])?;
    let place = own_place(&query.required("place")?)?;
    let limit = match query.take("limit") {
        Some(text) => Some(number(&text)?),
        None => None,
    };
    let limit = crate::extract::limit(limit, PAGE_USUAL, PAGE_MAX)?;
    let cursor = query.take("cursor");
    let waiting = match query.take("waiting").as_deref() {
        None | Some(b"false") => false,
        Some(b"true") => true,
        Some(_) => return Err(ApiError::invalid("waiting is true or false".to_owned())),
    };
    app.run_at_places(move |app| {
        let caller = caller.again(app)?;
        check_current(app, &caller)?;
        let granted = app.jobs.access().of(&caller.name, caller.role)?;
        granted.check(&place, Right::List)?;
        let buffer = app.node.buffer.as_ref();
        let (export, path, after) = (&place.export, &place.path, cursor.as_deref());
        let page = buffer.map(|buffer| match waiting {
            true => buffer.waiting(export, path, after, limit),
            false => buffer.files(export, path, after, limit),
        });
        let (export, below) = (place.export.clone(), Text(place.path.clone()));
        let after = cursor.clone().map(Text);
        let most = u32::try_from(limit).unwrap_or(PAGE_MAX);
        let question = match waiting {
            true => BufferQuestion::Waiting {
                export,
                below,
                after,
                most,
            },
            false => BufferQuestion::Files {
                export,
                below,
                after,
                most,
            },
        };
        let others = others(app, &question);
        Ok(Json(buffers::merged(
            page.unwrap_or_default(),
            others,
            limit,
        )))
    })
    .await
}

/// Sets how long files stay in the buffers of the cluster.
#[utoipa::path(post, path = "/buffer/keep", tag = "buffer", request_body = KeepInBuffer, responses((status = 200, body = BufferChanged), Problems))]
async fn keep(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(wish): Body<KeepInBuffer>,
) -> Result<Json<BufferChanged>, ApiError> {
    let place = own_place(&wish.place.0)?;
    let question = BufferQuestion::Keep {
        export: place.export.clone(),
        below: Text(place.path.clone()),
        seconds: wish.seconds,
    };
    let right = Right::Read;
    change(&app, caller, ("buffer_keep", right), place, question).await
}

/// Lets files leave the buffers of the cluster.
#[utoipa::path(post, path = "/buffer/drop", tag = "buffer", request_body = DropFromBuffer, responses((status = 200, body = BufferChanged), Problems))]
async fn drop_files(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(wish): Body<DropFromBuffer>,
) -> Result<Json<BufferChanged>, ApiError> {
    let place = own_place(&wish.place.0)?;
    let (export, below) = (place.export.clone(), Text(place.path.clone()));
    let (action, question) = match wish.waiting {
        // The only copies go.
        true => (
            ("buffer_give_up", Right::Write),
            BufferQuestion::GiveUp { export, below },
        ),
        false => (
            ("buffer_drop", Right::Read),
            BufferQuestion::Drop { export, below },
        ),
    };
    change(&app, caller, action, place, question).await
}

/// Tries files again that have arrived, and could not go to their export, at all nodes of the cluster.
#[utoipa::path(post, path = "/buffer/retry", tag = "buffer", request_body = RetryDrain, responses((status = 200, body = BufferChanged), Problems))]
async fn retry(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(wish): Body<RetryDrain>,
) -> Result<Json<BufferChanged>, ApiError> {
    let place = own_place(&wish.place.0)?;
    let question = BufferQuestion::Retry {
        export: place.export.clone(),
        below: Text(place.path.clone()),
    };
    let right = Right::Write;
    change(&app, caller, ("buffer_retry", right), place, question).await
}

/// Changes the buffers of all nodes for a caller who has the right to the place, and audits that.
async fn change(
    app: &Arc<App>,
    caller: Caller,
    (action, right): (&'static str, Right),
    place: Place,
    question: BufferQuestion,
) -> Result<Json<BufferChanged>, ApiError> {
    app.run_at_places(move |app| {
        let caller = caller.again(app)?;
        let granted = app.jobs.access().of(&caller.name, caller.role)?;
        let object = cut(place.to_string());
        if let Err(error) = granted.check(&place, right) {
            let error = ApiError::from(error);
            app.refused(caller.actor(), action, &object, error.code().clone());
            return Err(error.written());
        }
        let entry = AuditEntry {
            action: action.to_owned(),
            object,
            outcome: AuditOutcome::Done,
        };
        // The line is written before the change, and the change itself cannot fail. So no change lacks its line.
        app.propose(caller.actor(), Op::Audit(entry))?;
        let here = answer_of(app.node.buffer.as_deref(), &question);
        let others = others(app, &question);
        Ok(Json(buffers::changed(&app.node.name, &here, others)))
    })
    .await
}

/// A place of this node.
fn own_place(text: &[u8]) -> Result<Place, ApiError> {
    let place = place(text)?;
    match place.site == HERE {
        true => Ok(place),
        false => Err(ApiError::invalid(format!(
            "{place}: the buffer of another site belongs to its nodes; ask one of them, and write {HERE}:/EXPORT/PATH"
        ))),
    }
}
