//! All endpoints: route, role and description, stated once each.

use super::{
    Api, audit, configuration, configuration_history, consumer, count, difference, event, explain,
    export, fleet, invoice, job, job_item, journal, lab, limit, live, pool, profile, resubmit,
    rollout, session, sink, tail, test_request, token, transaction, upstream, usage, view,
};
use crate::access::{BASE, needs};
use crate::role::Role::{self, Admin, Operator, PayloadViewer, Viewer};
use axum::{Json, Router};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

/// The admin API.
#[derive(OpenApi)]
#[openapi(
    info(title = "weir admin API", description = "Administration of weir: transactions, usage, pools, configuration and access."),
    modifiers(&Bearer),
    security(("token" = []))
)]
struct Document;

/// The security scheme: a bearer token.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.security_schemes.insert("token".to_owned(), scheme.into());
    }
}

/// The routes, without [`BASE`], and their description.
pub(super) struct Endpoints {
    pub(super) router: Router<Arc<Api>>,
    pub(super) document: utoipa::openapi::OpenApi,
}

/// All endpoints, each with the lowest role that may call it.
pub(super) fn endpoints() -> Endpoints {
    Endpoints { router: Router::new(), document: Document::openapi() }
        .add(Viewer, routes!(document))
        .add(Viewer, routes!(session::show, session::start, session::end))
        .add(Viewer, routes!(session::ticket))
        .add(Viewer, routes!(journal::state))
        .add(Operator, routes!(journal::verify))
        .add(Viewer, routes!(invoice::invoices))
        .add(Viewer, routes!(limit::limits))
        .add(Viewer, routes!(consumer::show))
        .add(Viewer, routes!(upstream::targets))
        .add(Viewer, routes!(upstream::health))
        .add(Viewer, routes!(configuration::routes))
        .add(Viewer, routes!(configuration::openapi))
        .add(Viewer, routes!(live::traffic))
        .add(Viewer, routes!(live::rejections))
        .add(Operator, routes!(configuration::state))
        .add(Viewer, routes!(configuration_history::list))
        .add(Operator, routes!(configuration_history::show))
        .add(Operator, routes!(configuration::check))
        .add(Admin, routes!(configuration::reload))
        .add(Viewer, routes!(live::follow))
        .add(Viewer, routes!(live::history))
        .add(Viewer, routes!(lab::state))
        .add(Viewer, routes!(lab::progress))
        .add(Admin, routes!(lab::start))
        .add(Operator, routes!(lab::stop))
        .add(Viewer, routes!(lab::compare))
        .add(Viewer, routes!(lab::run))
        .add(Viewer, routes!(lab::report))
        .add(Viewer, routes!(pool::pools))
        .add(Viewer, routes!(live::pools))
        .add(Operator, routes!(pool::act))
        .add(Operator, routes!(explain::explain))
        .add(Operator, routes!(test_request::send))
        .add(Viewer, routes!(event::sinks))
        .add(Viewer, routes!(sink::list))
        .add(Operator, routes!(sink::rejected))
        .add(Operator, routes!(sink::gaps))
        .add(Operator, routes!(sink::backfill))
        .add(Viewer, routes!(fleet::status))
        .add(Viewer, routes!(fleet::verify))
        .add(Admin, routes!(fleet::retire))
        .add(Viewer, routes!(rollout::versions))
        .add(Admin, routes!(rollout::push))
        .add(Viewer, routes!(rollout::show))
        .add(Admin, routes!(rollout::start))
        .add(Operator, routes!(rollout::act))
        .add(Operator, routes!(rollout::roll_back))
        .add(Viewer, routes!(transaction::search))
        .add(Viewer, routes!(count::summary))
        .add(Viewer, routes!(difference::difference))
        .add(Viewer, routes!(profile::profile))
        .add(Viewer, routes!(export::export))
        .add(Viewer, routes!(tail::tail))
        .add(Viewer, routes!(transaction::show))
        .add(Viewer, routes!(transaction::explanation))
        .add(PayloadViewer, routes!(transaction::body))
        .add(Viewer, routes!(usage::usage))
        .add(Operator, routes!(usage::rebuild))
        .add(Operator, routes!(resubmit::resubmit))
        .add(Operator, routes!(resubmit::resolve))
        .add(Operator, routes!(job::list, job::create))
        .add(Operator, routes!(job::show))
        .add(Operator, routes!(job::act))
        .add(Operator, routes!(job_item::list))
        .add(Operator, routes!(job_item::retry))
        .add_for_nodes(Operator, routes!(job::find_items))
        .add_for_nodes(Operator, routes!(job::send_items))
        .add(Viewer, routes!(view::list))
        .add(Operator, routes!(view::save, view::delete))
        .add(Admin, routes!(audit::list))
        .add(Admin, routes!(token::list, token::create))
        .add(Admin, routes!(token::revoke))
}

impl Endpoints {
    /// Adds the endpoints of a path, restricted to callers with this role or a higher one.
    fn add(self, role: Role, endpoint: UtoipaMethodRouter<Arc<Api>>) -> Self {
        self.add_stated(role.name(), role, endpoint)
    }

    /// As [`Endpoints::add`], for handlers that reject everyone but other nodes of the fleet, on whose
    /// behalf ever they call.
    fn add_for_nodes(self, role: Role, endpoint: UtoipaMethodRouter<Arc<Api>>) -> Self {
        self.add_stated("node", role, endpoint)
    }

    fn add_stated(
        mut self,
        stated: &str,
        role: Role,
        endpoint: UtoipaMethodRouter<Arc<Api>>,
    ) -> Self {
        let (schemas, mut paths, methods) = endpoint;
        self.document.components.get_or_insert_default().schemas.extend(schemas);
        for (path, item) in &mut paths.paths {
            describe(path, item, stated);
            let route = path.strip_prefix(BASE).unwrap_or(path);
            self.router = self.router.route(route, needs(role, methods.clone()));
        }
        self.document.paths.merge(paths);
        self
    }
}

/// Adds the role, and an operation id from path and method: function names are not unique across
/// modules.
fn describe(path: &str, item: &mut PathItem, role: &str) {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).skip(2);
    let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    for (method, operation) in [
        ("get", &mut item.get),
        ("post", &mut item.post),
        ("put", &mut item.put),
        ("delete", &mut item.delete),
    ] {
        if let Some(operation) = operation {
            operation.operation_id = Some(format!("{method}-{name}"));
            let role = ExtensionsBuilder::new().add("x-weir-role", role);
            operation.extensions.get_or_insert_default().merge(role.build());
        }
    }
}

/// OpenAPI document of this API
#[utoipa::path(get, path = "/v1/openapi.json", tag = "about",
    responses((status = 200, description = "The description of this API (OpenAPI 3.1).")))]
async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(endpoints().document)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The console's client is generated from this file.
    #[test]
    fn the_description_of_the_console_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../console/openapi.json");
        let text = endpoints().document.to_pretty_json().unwrap() + "\n";
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let known = std::fs::read_to_string(path).unwrap_or_default();
        assert!(known == text, "{path} is not current: WEIR_BLESS=1 rewrites it");
    }

    #[test]
    fn operation_ids_are_unique() {
        let document = serde_json::to_value(endpoints().document).unwrap();
        let operations = document["paths"].as_object().unwrap().values();
        let names: Vec<_> = operations
            .flat_map(|methods| methods.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), different.len(), "{names:?}");
    }

    #[test]
    fn references_of_the_description_resolve() {
        let document = serde_json::to_value(endpoints().document).unwrap();
        let text = document.to_string();
        let mut referred = 0;
        for part in text.split("\"$ref\":\"#").skip(1) {
            let pointer = part.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
            referred += 1;
        }
        assert!(referred > 20, "{referred}");
    }
}
