//! Owns the table of routes, and the document that describes them.
//! See the modules below for the action of each route.

#![allow(
    unused_qualifications,
    reason = "the macros that describe routes write whole paths"
)]

mod access;
mod account;
mod audit;
mod buffer;
mod cluster;
mod docs;
mod events;
mod figures;
mod flows;
mod health;
mod jobs;
pub(crate) mod node;
mod places;
mod report;
mod rules;
mod schedules;
mod session;
mod sites;
mod tokens;
mod users;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use godwit_api::failure::FailureCode;
use godwit_api::rest::Problem;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::extract::BODY_BYTES_MAX;
use crate::middleware;
use crate::page;
use crate::problem::{ApiError, PROBLEM_JSON};
use crate::refusals;

/// Where the routes of the API begin.
const BASE: &str = "/api/v1";

/// All routes, ready to serve.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let (router, mut document) = tables().split_for_parts();
    name_operations(&mut document);
    let document = document.to_pretty_json().unwrap_or_default();
    router
        .merge(docs::routes(document))
        .fallback(page::fallback)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(app), refusals::log_refusals))
        .layer(from_fn(middleware::guard))
        .layer(from_fn_with_state(Arc::clone(app), middleware::measure))
        .layer(from_fn_with_state(Arc::clone(app), middleware::identify))
        .with_state(Arc::clone(app))
}

/// The document that describes the API.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let mut document = tables().split_for_parts().1;
    name_operations(&mut document);
    document
}

/// Names each operation by its method and path, for the names of the handlers are not unique.
fn name_operations(document: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let path = path.trim_start_matches(BASE);
        let words: Vec<&str> = path
            .split(|sign: char| !sign.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let path = words.join("_");
        for (method, operation) in [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("patch", &mut item.patch),
            ("delete", &mut item.delete),
        ] {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}_{path}"));
            }
        }
    }
}

fn tables() -> OpenApiRouter<Arc<App>> {
    let api = OpenApiRouter::new()
        .merge(node::routes())
        .merge(figures::routes())
        .merge(jobs::routes())
        .merge(sites::routes())
        .merge(users::routes())
        .merge(tokens::routes())
        .merge(access::routes())
        .merge(session::routes())
        .merge(account::routes())
        .merge(rules::routes())
        .merge(schedules::routes())
        .merge(flows::routes())
        .merge(webhooks::routes())
        .merge(events::routes())
        .merge(report::routes())
        .merge(places::routes())
        .merge(buffer::routes())
        .merge(audit::routes())
        .merge(cluster::routes());
    OpenApiRouter::with_openapi(Described::openapi())
        .merge(health::routes())
        .nest(BASE, api)
}

pub(crate) fn no_such_route(uri: &Uri) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        FailureCode::NoSuchRoute,
        format!(
            "no route {}; the routes are listed in /openapi.json",
            uri.path()
        ),
    )
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        FailureCode::NoSuchMethod,
        format!(
            "{} does not accept {method}; the header Allow lists the accepted methods",
            uri.path()
        ),
    )
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Godwit",
        description = "The API of a Godwit node. Errors are problem documents of RFC 9457; `code` tells programs what happened. \
                       Callers who are neither the job's owner nor admins, and may not list all of its places, see an outline of the job: state, times \
                       and figures, `…` for hidden paths, no messages or names of entries; log, report and manifest are refused (`not_granted`).",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(Problem)),
    security(("token" = [])),
    modifiers(&Security),
)]
struct Described;

struct Security;

impl Modify for Security {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A token made by `godwit token create`. On the Unix socket of the node no token is needed: the user of the process counts."))
            .build();
        if let Some(components) = openapi.components.as_mut() {
            components.add_security_scheme("token", SecurityScheme::Http(scheme));
        }
    }
}

/// Problems that any route may answer, beside its own answers.
struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let problem = |what: &str| -> RefOr<Response> {
            let content = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("Problem")))
                .build();
            ResponseBuilder::new()
                .description(what)
                .content(PROBLEM_JSON, content)
                .build()
                .into()
        };
        [
            ("401", "The caller has not proven who it is."),
            ("403", "The caller may not do this."),
            ("4XX", "The request is invalid."),
            ("5XX", "The node cannot carry out the request now."),
        ]
        .into_iter()
        .map(|(status, what)| (status.to_owned(), problem(what)))
        .collect()
    }
}
