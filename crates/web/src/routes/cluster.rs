//! Owns the routes of the cluster: how it is, invitations, and changes of nodes.
//! Knows no consensus: `cluster` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use godwit_api::rest::{ChangeNode, ClusterView, InviteView, ListedInvite, NewInvite};
use godwit_cluster::Cluster;
use godwit_jobs::now;
use godwit_state::{Agreed, Change, Invite, LEVEL_INVITES, Node, Op};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Admin, Viewer};
use crate::extract::{Body, Parameters, Path};
use crate::problem::ApiError;

/// Default lifetime of an invitation.
const INVITE_SECONDS: u64 = 3_600;

/// Shortest and longest lifetime of an invitation.
const INVITE_RANGE: std::ops::RangeInclusive<u64> = 60..=604_800;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(invites, invite))
        .routes(routes!(revoke))
        .routes(routes!(change, remove))
}

/// Shows the cluster of the node: its leader, and all nodes with their votes and states.
#[utoipa::path(get, path = "/cluster", tag = "cluster", responses((status = 200, body = ClusterView), Problems))]
async fn show(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<ClusterView>, ApiError> {
    app.run_at_places(view).await.map(Json)
}

/// Makes an invitation, with which one node can join.
#[utoipa::path(post, path = "/cluster/invites", tag = "cluster", request_body = NewInvite, responses((status = 200, body = InviteView), Problems))]
async fn invite(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Body(new): Body<NewInvite>,
) -> Result<Json<InviteView>, ApiError> {
    let seconds = new.seconds.unwrap_or(INVITE_SECONDS);
    if !INVITE_RANGE.contains(&seconds) {
        let (least, most) = INVITE_RANGE.into_inner();
        let detail = format!("seconds: an invitation is good for {least} to {most} seconds");
        return Err(ApiError::invalid(detail));
    }
    app.run(move |app| {
        let cluster = cluster(app)?;
        let (tokens, until) = match &caller.standing {
            Some(standing) if Agreed(&app.reader()).level()? >= LEVEL_INVITES => {
                (standing.chain.clone(), standing.expires)
            }
            _ => (Vec::new(), None),
        };
        let wanted = now().after(seconds * 1_000);
        let expires = until.map_or(wanted, |until| until.min(wanted));
        let invited = cluster.invite(caller.actor(), tokens, expires)?;
        Ok(InviteView {
            id: invited.id,
            token: invited.token.text(),
            expires,
            addresses: cluster.addresses(),
        })
    })
    .await
    .map(Json)
}

/// Lists the invitations, without their tokens.
#[utoipa::path(get, path = "/cluster/invites", tag = "cluster", responses((status = 200, body = Vec<ListedInvite>), Problems))]
async fn invites(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<ListedInvite>>, ApiError> {
    app.run(|app| {
        cluster(app)?;
        let reader = app.reader();
        let nodes = reader.objects::<Node>()?;
        let name_of = |identity: String| {
            let node = nodes.iter().find(|node| node.identity == identity);
            node.map_or(identity, |node| node.name.clone())
        };
        let at = now();
        let listed = reader.objects::<Invite>()?.into_iter().map(|invite| {
            Ok(ListedInvite {
                usable: Agreed(&reader).admits(&invite, at)?,
                id: invite.id,
                maker: invite.by,
                created: invite.created,
                expires: invite.expires,
                ended: invite.ended,
                used_by: invite.used.map(name_of),
            })
        });
        listed.collect()
    })
    .await
    .map(Json)
}

/// Revokes an invitation by which no node has joined. It admits no node from then on.
#[utoipa::path(delete, path = "/cluster/invites/{id}", tag = "cluster", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn revoke(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| {
        cluster(app)?;
        app.propose(caller.actor(), Op::Invite(Change::Remove(id)))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes a node: whether it takes jobs, and whether it votes.
#[utoipa::path(patch, path = "/cluster/nodes/{name}", tag = "cluster", params(("name" = String, Path)), request_body = ChangeNode, responses((status = 200, body = ClusterView), Problems))]
async fn change(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Body(wish): Body<ChangeNode>,
) -> Result<Json<ClusterView>, ApiError> {
    app.run_at_places(move |app| {
        cluster(app)?.change(caller.actor(), &name, wish)?;
        view(app)
    })
    .await
    .map(Json)
}

/// How a node is removed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Removal {
    /// Removes the node even if it is alive and not drained.
    #[serde(default, deserialize_with = "yes_or_no")]
    force: bool,
}

/// Reads a parameter of a query, which is text.
pub(super) fn yes_or_no<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match String::deserialize(from)?.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(D::Error::custom(format!(
            "{other:?} is neither true nor false"
        ))),
    }
}

/// Removes a node. Its jobs continue at other nodes.
#[utoipa::path(delete, path = "/cluster/nodes/{name}", tag = "cluster", params(("name" = String, Path), Removal), responses((status = 204), Problems))]
async fn remove(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Parameters(removal): Parameters<Removal>,
) -> Result<StatusCode, ApiError> {
    app.run_at_places(move |app| Ok(cluster(app)?.remove(caller.actor(), &name, removal.force)?))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn cluster(app: &App) -> Result<&Cluster, ApiError> {
    let missing = || ApiError::not_found("this node belongs to no cluster");
    app.cluster.as_ref().ok_or_else(missing)
}

fn view(app: &App) -> Result<ClusterView, ApiError> {
    let view = cluster(app)?.view();
    view.map_err(|refusal| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            refusal.code,
            refusal.message,
        )
    })
}
