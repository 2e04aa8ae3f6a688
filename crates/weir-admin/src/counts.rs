//! The counts that a query is about: of the whole fleet, of one of its nodes, or of this node.

use crate::problem::{Problem, Result};
use crate::sources::Sources;
use axum::http::StatusCode;
use tokio::runtime::Handle;
use weir_fleet::collect::{CollectError, Collected, Selection};
use weir_fleet::database::DatabaseError;

/// The value of `node` for what this node has counted.
pub(crate) const HERE: &str = "here";

/// The counts that a selection is about; `None` if this node meters no calls. Has to be called on a
/// thread that may block.
pub(crate) fn select(sources: &Sources, selection: &Selection) -> Option<Result<Collected>> {
    let (metering, gaps) = (sources.metering.as_ref()?, sources.gaps.as_ref()?);
    let fleet = sources.fleet.as_ref().filter(|_| selection.node.as_deref() != Some(HERE));
    Some(match (fleet, &selection.node) {
        (Some(fleet), _) => {
            Handle::current().block_on(fleet.collect(selection)).map_err(Problem::from)
        }
        (None, Some(node)) if node != HERE => Err(NO_FLEET),
        (None, _) => {
            let (monitor, gaps) = (metering.monitor.clone(), gaps.clone());
            Ok(Collected { monitor, gaps, unreported: Vec::new() })
        }
    })
}

impl From<CollectError> for Problem {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Database(error) => no_database(&error),
            CollectError::Counts(error) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "unreadable",
                "Metering data cannot be read",
                format!("{error}."),
            ),
            error @ (CollectError::UnknownNode(_) | CollectError::TooMany) => {
                Self::bad(format!("{error}."))
            }
        }
    }
}

/// A query over nodes cannot be answered.
pub(crate) fn no_database(error: &DatabaseError) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "no-database",
        "The database of the fleet cannot be used",
        format!("{error}. With `node=here` this node reports what it has itself."),
    )
}

/// There is no fleet, and a query or a request is about one.
pub(crate) const NO_FLEET: Problem =
    Problem::not_found("No fleet", "This node is not a member of a fleet; `fleet` is not set.");
