//! Owns the table of routes, and the document that describes them.
//! Leaves what each route does to the modules below.

#![allow(
    unused_qualifications,
    reason = "the macros that describe routes write whole paths"
)]

mod jobs;
mod node;
mod sites;
mod tokens;
mod users;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn;
use godwit_api::rest::Problem;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::extract::BODY_BYTES_MAX;
use crate::middleware;
use crate::problem::{ApiError, PROBLEM_JSON};

/// Where the routes of the API begin.
const BASE: &str = "/api/v1";

/// All routes, ready to serve.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let (router, _) = tables().split_for_parts();
    router
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(middleware::identify))
        .with_state(Arc::clone(app))
}

/// The document that describes the API.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    tables().split_for_parts().1
}

fn tables() -> OpenApiRouter<Arc<App>> {
    let api = OpenApiRouter::new()
        .merge(node::routes())
        .merge(jobs::routes())
        .merge(sites::routes())
        .merge(users::routes())
        .merge(tokens::routes());
    OpenApiRouter::with_openapi(Described::openapi()).nest(BASE, api)
}

async fn no_such_route(uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no_such_route",
        format!(
            "there is no {}; the routes are listed in /openapi.json",
            uri.path()
        ),
    )
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        format!(
            "{} does not take {method}; the header Allow says what it takes",
            uri.path()
        ),
    )
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Godwit",
        description = "The API of a Godwit node. Errors are problem documents of RFC 9457; `code` tells programs what happened.",
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

/// What any route may answer beside its own answers.
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
            ("4XX", "The request cannot be carried out as it is."),
            ("5XX", "The node cannot carry the request out now."),
        ]
        .into_iter()
        .map(|(status, what)| (status.to_owned(), problem(what)))
        .collect()
    }
}
