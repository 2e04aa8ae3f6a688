//! Configurations that were in force, and what each changed.

use super::nodes::{DEADLINE, Scope, documents, forward, limit, passed_on, target};
use super::transaction::timeout;
use super::{Api, Call};
use crate::access::BASE;
use crate::configuration::{ConfigurationHistory, PastConfiguration, PastConfigurationDetails};
use crate::counts::HERE;
use crate::problem::{Params, Problem, Result};
use crate::sources::Sources;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_store::StoreError;
use weir_store::configurations::{Configurations, Entry, KeptFile, MAX_ENTRIES};
use weir_tracker::TrackerError;

/// Default number of configurations of a node.
const LIMIT: usize = 50;

/// The number of configurations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryParams {
    /// Maximum number of configurations of each node, 1 to 500; default 50.
    limit: Option<usize>,
    /// Only those with a lower number.
    before: Option<i64>,
    /// Name or id of the node of the fleet that is queried, or `here`; default: all.
    node: Option<String>,
    /// Deadline of other nodes in seconds, 1 to 30; default 2.
    timeout: Option<u64>,
}

/// List the configurations that were in force, the last one first
///
/// A restart or a reload with the same files is no new entry. The last 500 are kept, whatever the retention of
/// transactions.
#[utoipa::path(get, path = "/v1/configuration/history", tag = "configuration", params(HistoryParams),
    responses((status = 200, description = "The configurations.", body = ConfigurationHistory)))]
pub(super) async fn list(call: Call, Params(params): Params<HistoryParams>) -> Result<Response> {
    let HistoryParams { limit: most, before, node, timeout: seconds } = params;
    let most = super::transaction::limit(most, LIMIT, MAX_ENTRIES)?;
    let wait = timeout(seconds, DEADLINE)?;
    let (most_text, before_text) = (most.to_string(), before.map(|number| number.to_string()));
    let parameters = [("limit", Some(most_text.as_str())), ("before", before_text.as_deref())];
    let request = call.get(target(&format!("{BASE}/configuration/history"), &parameters));
    match call.scope(node.as_deref())? {
        Scope::Here => Ok(Json(call.own_history(most, before).await?).into_response()),
        Scope::One(fleet, peer) => {
            forward(&fleet, &peer, &request, limit(wait)).await.map(passed_on)
        }
        Scope::All(fleet, peers) => {
            let here = call.own_history(most, before);
            let (all, nodes) = documents((&fleet, &peers), &request, wait, here).await?;
            let mut sum = ConfigurationHistory { nodes: Some(nodes), ..Default::default() };
            for one in all {
                sum.more |= one.more;
                sum.configurations.extend(one.configurations);
            }
            sum.configurations.sort_by_key(|one| std::cmp::Reverse(one.time));
            Ok(Json(sum).into_response())
        }
    }
}

/// The configuration that another one is compared with.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CompareParams {
    /// Number of the configuration to compare with; default: the one before.
    against: Option<i64>,
    /// Name or id of the node of the fleet whose history it is, or `here`; default: this node.
    node: Option<String>,
}

/// Show a configuration that was in force, and what it changed
#[utoipa::path(get, path = "/v1/configuration/history/{number}", tag = "configuration",
    params(("number" = i64, Path, description = "Number of the configuration."), CompareParams),
    responses(
        (status = 200, description = "Its files with redacted secrets, and the changes.", body = PastConfigurationDetails),
        (status = 404, description = "The number is unknown, or its retention has ended.")))]
pub(super) async fn show(
    call: Call,
    Path(number): Path<String>,
    Params(params): Params<CompareParams>,
) -> Result<Response> {
    let CompareParams { against, node } = params;
    let number: i64 = number.parse().map_err(|_| Problem::bad("The number must be an integer."))?;
    if let Scope::One(fleet, peer) = call.scope(Some(node.as_deref().unwrap_or(HERE)))? {
        let against = against.map(|number| number.to_string());
        let path = format!("{BASE}/configuration/history/{number}");
        let request = call.get(target(&path, &[("against", against.as_deref())]));
        return forward(&fleet, &peer, &request, limit(DEADLINE)).await.map(passed_on);
    }
    let find = move |history: &Configurations| {
        let Some(configuration) = with_files(history, number)? else { return Ok(None) };
        let other = match against {
            Some(other) => Some(other),
            None => history.latest(1, Some(number))?.first().map(|entry| entry.number),
        };
        let compared = other.map(|other| with_files(history, other)).transpose()?.flatten();
        if against.is_some() && compared.is_none() {
            return Ok(None);
        }
        Ok(Some(PastConfigurationDetails::new(configuration, compared)))
    };
    let found = call.api.configuration_history(find).await?.flatten();
    let mut details = found.ok_or(NO_CONFIGURATION)?;
    let name = call.own_name();
    details.configuration.node.clone_from(&name);
    details.compared.iter_mut().for_each(|one| one.node.clone_from(&name));
    Ok(Json(details).into_response())
}

/// A configuration with its files.
fn with_files(
    history: &Configurations,
    number: i64,
) -> Result<Option<(Entry, Vec<KeptFile>)>, StoreError> {
    let found = history.latest(1, number.checked_add(1))?.pop();
    let Some(entry) = found.filter(|entry| entry.number == number) else { return Ok(None) };
    let files = history.files(&entry.digest)?.unwrap_or_default();
    Ok(Some((entry, files)))
}

impl Call {
    /// The name of this node among those that query each other; empty without any.
    fn own_name(&self) -> String {
        let peers = self.api.sources.fleet.as_ref().and_then(weir_fleet::Handle::peers);
        peers.map(|peers| peers.name).unwrap_or_default()
    }

    /// The history of this node.
    async fn own_history(&self, most: usize, before: Option<i64>) -> Result<ConfigurationHistory> {
        let find = move |history: &Configurations| history.latest(most + 1, before);
        let mut entries = self.api.configuration_history(find).await?.unwrap_or_default();
        let more = entries.len() > most;
        entries.truncate(most);
        let mut configurations: Vec<PastConfiguration> =
            entries.into_iter().map(Into::into).collect();
        let name = self.own_name();
        configurations.iter_mut().for_each(|one| one.node.clone_from(&name));
        Ok(ConfigurationHistory { configurations, more, nodes: None })
    }
}

impl Api {
    /// Reads the history; `None` if this node keeps none.
    async fn configuration_history<T: Send + 'static>(
        &self,
        find: impl FnOnce(&Configurations) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Option<T>> {
        let read = move |sources: &Sources| {
            let kept = sources.configuration.kept.as_deref();
            Some(kept.map(find).transpose().map_err(TrackerError::unreadable))
        };
        self.query(&self.permits, NO_CONFIGURATION, read).await
    }
}

const NO_CONFIGURATION: Problem = Problem::fixed(
    StatusCode::NOT_FOUND,
    "no-configuration",
    "Unknown configuration",
    "No configuration of this node has this number; GET /v1/configuration/history lists them.",
);
