//! The program of a request.

use super::call::Call;
use crate::context::Context;
use crate::script_path::{Found, decoded};
use std::rc::Rc;
use weir_config::PoolHandler;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_model::pool::{AgentScript, Pool};
use weir_wire::RequestHead;

/// Finds the program of a request.
pub(super) async fn find(
    context: &Context<'_>,
    request: &RequestHead,
    settings: &Pool,
    handler: &PoolHandler,
    call: &Call,
) -> Result<Rc<Found>, Rejection> {
    let path = call.path(request);
    let (before, rest) = path.split_at(call.led(&context.view(request)));
    let fixed = handler.script.as_ref().or(match &settings.script {
        AgentScript::Fixed(file) => Some(file),
        AgentScript::None | AgentScript::Below(_) => None,
    });
    if let (None, AgentScript::Below(root)) = (fixed, &settings.script) {
        let scripts = &context.worker.scripts;
        return Ok(scripts.below(handler.pool.0, root, before, rest).await?);
    }
    let (name, info) = match before.strip_suffix('/') {
        Some(name) if context.route.path.wildcard => (name, format!("/{rest}")),
        _ => (path, String::new()),
    };
    let name = decoded(name);
    let info = if info == "/" && !path.ends_with('/') { String::new() } else { info };
    let info = decoded(&info);
    if info.contains('\0') || name.contains('\0') {
        return Err(Problem::BadRequest.into());
    }
    Ok(Rc::new(Found { file: fixed.cloned(), root: None, name, info, own_path: None }))
}
