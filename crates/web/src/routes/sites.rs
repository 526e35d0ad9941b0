//! Owns the routes of sites.
//! Dials none.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use godwit_api::PORT_DEFAULT;
use godwit_api::grant::check_identity;
use godwit_api::host::HostPort;
use godwit_api::rest::{HERE, IndependentNode, NewSite, SiteView, check_site_name};
use godwit_state::{Change, Op, Peer, Site, SiteNode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Admin, Viewer};
use crate::extract::{Body, Path};
use crate::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, put, remove))
}

/// Lists the sites.
#[utoipa::path(get, path = "/sites", tag = "sites", responses((status = 200, body = Vec<SiteView>), Problems))]
async fn list(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<SiteView>>, ApiError> {
    let sites = app.run(|app| Ok(app.reader().objects::<Site>()?)).await?;
    Ok(Json(sites.into_iter().map(view).collect()))
}

/// Shows a site.
#[utoipa::path(get, path = "/sites/{name}", tag = "sites", params(("name" = String, Path)), responses((status = 200, body = SiteView), Problems))]
async fn show(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<SiteView>, ApiError> {
    app.run(move |app| find(app, &name)).await.map(Json)
}

/// Adds or replaces a site.
#[utoipa::path(put, path = "/sites/{name}", tag = "sites", params(("name" = String, Path)), request_body = NewSite, responses((status = 200, body = SiteView), Problems))]
async fn put(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Body(new): Body<NewSite>,
) -> Result<Json<SiteView>, ApiError> {
    let site = checked(&name, new)?;
    app.run(move |app| {
        app.propose(caller.actor(), Op::Site(Change::Put(site)))?;
        find(app, &name)
    })
    .await
    .map(Json)
}

/// Removes a site. Jobs that name it fail at their next attempt.
#[utoipa::path(delete, path = "/sites/{name}", tag = "sites", params(("name" = String, Path)), responses((status = 204), Problems))]
async fn remove(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| app.propose(caller.actor(), Op::Site(Change::Remove(name))))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn find(app: &App, name: &str) -> Result<SiteView, ApiError> {
    let site = app.reader().object::<Site>(name)?;
    site.map(view).ok_or_else(|| {
        ApiError::not_found(format!(
            "this node knows no site {name:?}; list the sites with: godwit site list"
        ))
    })
}

/// Checks the new site, and returns it in the form of the state.
fn checked(name: &str, new: NewSite) -> Result<Site, ApiError> {
    check_site_name(name).map_err(|error| ApiError::invalid(format!("name: {error}")))?;
    if name == HERE {
        let detail = format!("name: {HERE} always means the node that receives the request");
        return Err(ApiError::invalid(detail));
    }
    let identity = check_node(&new.addresses, &new.identity)?;
    let nodes = new.nodes.into_iter().map(|node| {
        let identity = check_node(&node.addresses, &node.identity)?;
        Ok(SiteNode {
            peer: Peer {
                // Two nodes have different addresses, and may have one name.
                name: node.addresses[0].clone(),
                identity,
                addresses: node.addresses,
            },
            named: None,
            independent: true,
        })
    });
    Ok(Site {
        name: name.to_owned(),
        nodes: nodes.collect::<Result<_, ApiError>>()?,
        addresses: new.addresses,
        identity,
        comment: new.comment,
    })
}

/// Checks a node of a site, and returns its identity in the form of the state.
fn check_node(addresses: &[String], identity: &str) -> Result<String, ApiError> {
    if addresses.is_empty() {
        return Err(ApiError::invalid("addresses: name at least one"));
    }
    for address in addresses {
        HostPort::parse(address, PORT_DEFAULT)
            .map_err(|error| ApiError::invalid(format!("addresses: {address:?}: {error}")))?;
    }
    check_identity(identity).map_err(|error| ApiError::invalid(format!("identity: {error}")))
}

fn view(site: Site) -> SiteView {
    let independent = site.independent().map(|node| IndependentNode {
        addresses: node.peer.addresses.clone(),
        identity: node.peer.identity.clone(),
    });
    SiteView {
        nodes: independent.collect(),
        name: site.name,
        addresses: site.addresses,
        identity: site.identity,
        comment: site.comment,
    }
}
