//! The program of a request.

use super::call::Call;
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::script_path::{Found, decoded};
use std::rc::Rc;
use weir_config::{AgentScript, Pool, PoolHandler};

/// Finds it.
pub(super) async fn find(
    exchange: &Exchange,
    settings: &Pool,
    handler: &PoolHandler,
    call: &Call,
) -> Result<Rc<Found>, Rejection> {
    let request = call.path(exchange);
    let (before, rest) = request.split_at(call.led(exchange));
    let fixed = handler.script.as_ref().or(match &settings.script {
        AgentScript::Fixed(file) => Some(file),
        AgentScript::None | AgentScript::Below(_) => None,
    });
    if let (None, AgentScript::Below(root)) = (fixed, &settings.script) {
        let scripts = &exchange.worker.scripts;
        return Ok(scripts.below(handler.pool.0, root, before, rest).await?);
    }
    let wildcard = exchange.matched().is_some_and(|(_, route)| route.path.wildcard);
    let (name, info) = match before.strip_suffix('/') {
        Some(name) if wildcard => (name, format!("/{rest}")),
        _ => (request, String::new()),
    };
    let name = decoded(name);
    let info = if info == "/" && !request.ends_with('/') { String::new() } else { info };
    let info = decoded(&info);
    if info.contains('\0') || name.contains('\0') {
        return Err(Problem::BadRequest.into());
    }
    Ok(Rc::new(Found { file: fixed.cloned(), root: None, name, info, own_path: None }))
}
