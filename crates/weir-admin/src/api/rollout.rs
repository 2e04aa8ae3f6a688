//! Versions of the configuration of a fleet, and their rollouts.

use super::Call;
use super::resubmit::read;
use crate::audit::Action;
use crate::configuration::{FindingInfo, Pushed};
use crate::problem::{Problem, Result};
use crate::sources::Sources;
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use std::io;
use std::path::Path as FilePath;
use utoipa::ToSchema;
use uuid::Uuid;
use weir_config::versions::{Files, VersionStore, check_files};
use weir_config::{Source, VersionChoice};
use weir_document::finding::{Finding, Findings};
use weir_fleet::rollout::{MAX_COMMENT, RolloutAction, RolloutError};
use weir_fleet::versions::{FleetVersions, Version};
use weir_tracker::TrackerError;

/// List the versions of the configuration, the latest first
#[utoipa::path(get, path = "/v1/fleet/versions", tag = "fleet",
    responses(
        (status = 200, description = "Up to 100 versions, and those in use.", body = Vec<Version>),
        (status = 404, description = "This node is not a member of a fleet."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn versions(call: Call) -> Result<Json<Vec<Version>>> {
    let versions = call.fleet()?.versions().await;
    Ok(Json(versions.map_err(RolloutError::from)?))
}

/// A version that is pushed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewVersion {
    /// Comment, at most 1,000 characters.
    #[serde(default)]
    comment: String,
    /// Path and text of each file; `weir.yaml` is the main file.
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    files: Files,
}

/// Push a version of the configuration
///
/// This node checks the version as a reload would, with its own file and its secrets, and stores it. No node
/// takes it before a rollout.
#[utoipa::path(post, path = "/v1/fleet/versions", tag = "fleet", request_body = NewVersion,
    responses(
        (status = 200, description = "The number of the version, or its errors.", body = Pushed),
        (status = 400, description = "A path is invalid, or there are too many files."),
        (status = 404, description = "This node is not a member of a fleet."),
        (status = 409, description = "This node does not take versions."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn push(call: Call, body: Bytes) -> Result<Json<Pushed>> {
    let fleet = call.fleet()?.clone();
    if !fleet.takes_versions() {
        return Err(OWN_FILES);
    }
    let NewVersion { comment, files } = read(&body)?;
    if comment.chars().count() > MAX_COMMENT {
        return Err(Problem::bad(format!("A comment has at most {MAX_COMMENT} characters.")));
    }
    check_files(&files).map_err(|error| Problem::bad(format!("{error}.")))?;
    let checked = call.api.query(&call.api.permits, super::fleet::NO_CHECK, move |sources| {
        let found = check(sources, &files);
        Some(found.map(|found| (found, files)).map_err(|error| {
            TrackerError::unreadable(format!("the version cannot be written: {error}"))
        }))
    });
    let ((is_usable, findings), files) = checked.await?;
    if !is_usable {
        return Ok(Json(Pushed { version: None, findings }));
    }
    call.audit(Action::PushVersion, "", comment.clone()).await?;
    let version = fleet.push(&files, &call.caller.name, &comment).await?;
    Ok(Json(Pushed { version: Some(version), findings }))
}

/// Checks a version as a reload of this node would.
fn check(sources: &Sources, files: &Files) -> io::Result<(bool, Vec<FindingInfo>)> {
    let running = sources.gateway.config();
    let store = VersionStore::open(&running.data)?;
    let name = format!("check-{}", Uuid::new_v4());
    let folder = store.write(&name, files)?;
    let version = VersionChoice::Folder(folder.clone());
    let source = Source { version, ..sources.configuration.source.clone() };
    let mut found = match weir_gateway::configuration::load(&source) {
        Ok(loaded) => {
            let mut found = loaded.findings;
            let here = |change| Finding { file: source.path.clone(), ..change };
            found.list.extend(running.needs_restart(&loaded.config).into_iter().map(here));
            found
        }
        Err(found) => found,
    };
    let of_version = |finding: &Finding| finding.file.starts_with(&folder);
    let secrets = std::mem::take(&mut found.secrets.literal).into_iter().filter(of_version);
    found.list.extend(secrets);
    store.remove(&name)?;
    Ok((!found.has_errors(), relative(&found, &folder)))
}

/// Findings with the paths of files as they were pushed.
fn relative(found: &Findings, folder: &FilePath) -> Vec<FindingInfo> {
    let prefix = format!("{}/", folder.display());
    let shorten = |finding: FindingInfo| FindingInfo {
        file: finding.file.replace(&prefix, ""),
        message: finding.message.replace(&prefix, ""),
        ..finding
    };
    FindingInfo::all(found).into_iter().map(shorten).collect()
}

/// Show the version of the fleet and the latest rollout
#[utoipa::path(get, path = "/v1/fleet/rollout", tag = "fleet",
    responses(
        (status = 200, description = "As of now.", body = FleetVersions),
        (status = 404, description = "This node is not a member of a fleet."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn show(call: Call) -> Result<Json<FleetVersions>> {
    Ok(Json(call.fleet()?.rollout().await.map_err(RolloutError::from)?))
}

/// The version of a rollout.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRollout {
    /// Number of the version.
    version: i64,
}

/// Start the rollout of a version
///
/// To one node, a tenth of the nodes, and all. It is rolled back if a node rejects the version, ends, is not
/// ready, or has more responses with 5xx than the others.
#[utoipa::path(post, path = "/v1/fleet/rollout", tag = "fleet", request_body = StartRollout,
    responses(
        (status = 200, description = "The rollout has started.", body = FleetVersions),
        (status = 404, description = "Unknown version, or no fleet."),
        (status = 409, description = "Another rollout is active, or no node takes versions."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn start(call: Call, body: Bytes) -> Result<Json<FleetVersions>> {
    let StartRollout { version } = read(&body)?;
    let fleet = call.fleet()?.clone();
    call.audit(Action::StartRollout, version.to_string(), "").await?;
    fleet.start_rollout(version, &call.caller.name).await?;
    show(call).await
}

/// Pause, resume or abort the rollout
#[utoipa::path(post, path = "/v1/fleet/rollout/{action}", tag = "fleet",
    params(("action" = String, Path, description = "`pause`, `resume` or `abort`.")),
    responses(
        (status = 200, description = "The rollout was changed.", body = FleetVersions),
        (status = 404, description = "Unknown action, or no fleet."),
        (status = 409, description = "No rollout is in the state for this."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn act(call: Call, Path(action): Path<String>) -> Result<Json<FleetVersions>> {
    let fleet = call.fleet()?.clone();
    let action: RolloutAction = action.parse().map_err(|_| UNKNOWN_ACTION)?;
    call.audit(Action::ChangeRollout, "", action.to_string()).await?;
    fleet.act_on_rollout(action, &call.caller.name).await?;
    show(call).await
}

/// The version of a rollback.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RollBack {
    /// Number of the version; absent: the one before.
    #[serde(default)]
    version: Option<i64>,
}

/// Roll all nodes back at once
///
/// To a version, or to the one before. An active rollout is aborted; without a version, nothing else is
/// changed then.
#[utoipa::path(post, path = "/v1/fleet/rollback", tag = "fleet", request_body = RollBack,
    responses(
        (status = 200, description = "The nodes take the version.", body = FleetVersions),
        (status = 404, description = "Unknown version, or no fleet."),
        (status = 409, description = "The version was never in force, or none was before."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn roll_back(call: Call, body: Bytes) -> Result<Json<FleetVersions>> {
    let RollBack { version } = read(&body)?;
    let fleet = call.fleet()?.clone();
    let subject = version.map(|version| version.to_string()).unwrap_or_default();
    call.audit(Action::RollBack, subject, "").await?;
    fleet.roll_back(version, &call.caller.name).await?;
    show(call).await
}

impl From<RolloutError> for Problem {
    fn from(error: RolloutError) -> Self {
        let (status, kind, title) = match error {
            RolloutError::Database(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no-database",
                "The database of the fleet cannot be used",
            ),
            RolloutError::UnknownVersion(_) => {
                (StatusCode::NOT_FOUND, "not-found", "Unknown version")
            }
            RolloutError::Active => {
                (StatusCode::CONFLICT, "rollout-active", "Another rollout is active")
            }
            RolloutError::NotActive(_)
            | RolloutError::NoNodes
            | RolloutError::NoneBefore
            | RolloutError::NeverInForce(_)
            | RolloutError::InForce(_) => {
                (StatusCode::CONFLICT, "rollout-impossible", "This does not apply now")
            }
            RolloutError::Files(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "unreadable", "The files cannot be stored")
            }
        };
        Self::new(status, kind, title, format!("{error}."))
    }
}

const UNKNOWN_ACTION: Problem =
    Problem::not_found("Unknown action", "The actions are pause, resume and abort.");

const OWN_FILES: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "own-files",
    "This node does not take versions",
    "Set `fleet: {config: {source: fleet}}` and restart the node.",
);
