//! All endpoints: route, role and description, stated once each.

use super::{
    Api, api_key, audit, configuration, configuration_history, consumer, count, difference, event,
    explain, export, fleet, invoice, job, job_item, journal, lab, limit, live, oidc, pool, profile,
    resubmit, rollout, session, sink, tail, test_request, token, transaction, upstream, usage,
    view,
};
use crate::access::{BASE, needs};
use crate::role::Role::{self, Admin, Operator, PayloadViewer, Viewer};
use crate::scope::Reach;
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
    /// Those of the sign-in, which need no token.
    pub(super) public: Router<Arc<Api>>,
    pub(super) document: utoipa::openapi::OpenApi,
}

/// All endpoints, each with the lowest role that may call it, and what a scope has to include.
pub(super) fn endpoints() -> Endpoints {
    Endpoints { router: Router::new(), public: Router::new(), document: Document::openapi() }
        .add_public(routes!(oidc::ways))
        .add_public(routes!(oidc::start))
        .add_public(routes!(oidc::callback))
        .add_public(routes!(oidc::session))
        .add_public(routes!(oidc::device::start_device))
        .add_public(routes!(oidc::device::device_token))
        .add(Viewer, Reach::Own, routes!(document))
        .add(Viewer, Reach::Own, routes!(session::show, session::start, session::end))
        .add(Viewer, Reach::Own, routes!(session::ticket))
        .add(Admin, Reach::Administration, routes!(session::list))
        .add(Admin, Reach::Administration, routes!(session::revoke))
        .add(Viewer, Reach::Server, routes!(journal::state))
        .add(Operator, Reach::Server, routes!(journal::verify))
        .add(Viewer, Reach::Server, routes!(invoice::invoices))
        .add(Viewer, Reach::Server, routes!(limit::limits))
        .add(Viewer, Reach::Server, routes!(consumer::show))
        .add(Viewer, Reach::Server, routes!(upstream::targets))
        .add(Viewer, Reach::Server, routes!(upstream::health))
        .add(Viewer, Reach::Apis, routes!(configuration::routes))
        .add(Viewer, Reach::Apis, routes!(configuration::openapi))
        .add(Viewer, Reach::Apis, routes!(live::traffic))
        .add(Viewer, Reach::Server, routes!(live::rejections))
        .add(Operator, Reach::Server, routes!(configuration::state))
        .add(Viewer, Reach::Server, routes!(configuration_history::list))
        .add(Operator, Reach::Server, routes!(configuration_history::show))
        .add(Operator, Reach::Server, routes!(configuration::check))
        .add(Admin, Reach::Administration, routes!(configuration::reload))
        .add(Viewer, Reach::Server, routes!(live::follow))
        .add(Viewer, Reach::Server, routes!(live::history))
        .add(Viewer, Reach::Server, routes!(lab::state))
        .add(Viewer, Reach::Server, routes!(lab::progress))
        .add(Admin, Reach::Administration, routes!(lab::start))
        .add(Operator, Reach::Administration, routes!(lab::stop))
        .add(Viewer, Reach::Server, routes!(lab::compare))
        .add(Viewer, Reach::Server, routes!(lab::run))
        .add(Viewer, Reach::Server, routes!(lab::report))
        .add(Viewer, Reach::Server, routes!(pool::pools))
        .add(Viewer, Reach::Server, routes!(live::pools))
        .add(Operator, Reach::Administration, routes!(pool::act))
        .add(Operator, Reach::Records, routes!(explain::explain))
        .add(Operator, Reach::Requests, routes!(test_request::send))
        .add(Viewer, Reach::Server, routes!(event::sinks))
        .add(Viewer, Reach::Server, routes!(sink::list))
        .add(Operator, Reach::Records, routes!(sink::rejected))
        .add(Operator, Reach::Server, routes!(sink::gaps))
        .add(Operator, Reach::Administration, routes!(sink::backfill))
        .add(Viewer, Reach::Server, routes!(fleet::status))
        .add(Viewer, Reach::Server, routes!(fleet::verify))
        .add(Admin, Reach::Administration, routes!(fleet::retire))
        .add(Viewer, Reach::Server, routes!(rollout::versions))
        .add(Admin, Reach::Administration, routes!(rollout::push))
        .add(Viewer, Reach::Server, routes!(rollout::show))
        .add(Admin, Reach::Administration, routes!(rollout::start))
        .add(Operator, Reach::Administration, routes!(rollout::act))
        .add(Operator, Reach::Administration, routes!(rollout::roll_back))
        .add_records()
}

impl Endpoints {
    /// Adds transactions, usage, resubmission, and who has access.
    fn add_records(self) -> Self {
        self.add(Viewer, Reach::Transactions, routes!(transaction::search))
            .add(Viewer, Reach::Transactions, routes!(count::summary))
            .add(Viewer, Reach::Transactions, routes!(difference::difference))
            .add(Viewer, Reach::Transactions, routes!(profile::profile))
            .add(Viewer, Reach::Transactions, routes!(export::export))
            .add(Viewer, Reach::Transactions, routes!(tail::tail))
            .add(Viewer, Reach::Transactions, routes!(transaction::show))
            .add(Viewer, Reach::Transactions, routes!(transaction::explanation))
            .add(PayloadViewer, Reach::Payloads, routes!(transaction::body))
            .add(Viewer, Reach::Apis, routes!(usage::usage))
            .add(Operator, Reach::Administration, routes!(usage::rebuild))
            .add(Operator, Reach::Resubmission, routes!(resubmit::resubmit))
            .add(Operator, Reach::Resolution, routes!(resubmit::resolve))
            .add(Operator, Reach::Jobs, routes!(job::list, job::create))
            .add(Operator, Reach::Jobs, routes!(job::show))
            .add(Operator, Reach::Jobs, routes!(job::act))
            .add(Operator, Reach::Jobs, routes!(job_item::list))
            .add(Operator, Reach::Jobs, routes!(job_item::retry))
            .add_for_nodes(Operator, Reach::Jobs, routes!(job::find_items))
            .add_for_nodes(Operator, Reach::Jobs, routes!(job::send_items))
            .add(Viewer, Reach::Transactions, routes!(view::list))
            .add(Operator, Reach::Server, routes!(view::save, view::delete))
            .add(Admin, Reach::Administration, routes!(audit::list))
            .add(Admin, Reach::Administration, routes!(audit::export))
            .add(Admin, Reach::Administration, routes!(token::list, token::create))
            .add(Admin, Reach::Administration, routes!(token::revoke))
            .add(Viewer, Reach::Server, routes!(api_key::list))
            .add(Viewer, Reach::Server, routes!(api_key::show))
            .add(Admin, Reach::Administration, routes!(api_key::act))
    }

    /// Adds the endpoints of a path, restricted to callers with this role or a higher one, and to scopes that
    /// permit this reach.
    fn add(self, role: Role, reach: Reach, endpoint: UtoipaMethodRouter<Arc<Api>>) -> Self {
        self.add_stated(role.name(), (role, reach), endpoint)
    }

    /// As [`Endpoints::add`], for handlers that reject everyone but other nodes of the fleet, on whose
    /// behalf ever they call.
    fn add_for_nodes(
        self,
        role: Role,
        reach: Reach,
        endpoint: UtoipaMethodRouter<Arc<Api>>,
    ) -> Self {
        self.add_stated("node", (role, reach), endpoint)
    }

    /// Adds the endpoints of a path that need no token.
    fn add_public(mut self, endpoint: UtoipaMethodRouter<Arc<Api>>) -> Self {
        let (schemas, mut paths, methods) = endpoint;
        self.document.components.get_or_insert_default().schemas.extend(schemas);
        for (path, item) in &mut paths.paths {
            describe(path, item, ("none", Reach::Own));
            let route = path.strip_prefix(BASE).unwrap_or(path);
            self.public = self.public.route(route, methods.clone());
        }
        self.document.paths.merge(paths);
        self
    }

    fn add_stated(
        mut self,
        stated: &str,
        (role, reach): (Role, Reach),
        endpoint: UtoipaMethodRouter<Arc<Api>>,
    ) -> Self {
        let (schemas, mut paths, methods) = endpoint;
        self.document.components.get_or_insert_default().schemas.extend(schemas);
        for (path, item) in &mut paths.paths {
            describe(path, item, (stated, reach));
            let route = path.strip_prefix(BASE).unwrap_or(path);
            self.router = self.router.route(route, needs(role, reach, methods.clone()));
        }
        self.document.paths.merge(paths);
        self
    }
}

/// Adds the role and the reach, and an operation id from path and method: function names are not unique across
/// modules.
fn describe(path: &str, item: &mut PathItem, (role, reach): (&str, Reach)) {
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
            let stated =
                ExtensionsBuilder::new().add("x-weir-role", role).add("x-weir-reach", reach.name());
            operation.extensions.get_or_insert_default().merge(stated.build());
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
        let document = endpoints().document;
        let current = serde_json::to_value(&document).unwrap();
        // The order of the extensions of an operation is that of a hash table.
        let is_current = || {
            let known = std::fs::read(path).unwrap_or_default();
            serde_json::from_slice::<serde_json::Value>(&known).is_ok_and(|known| known == current)
        };
        if std::env::var_os("WEIR_BLESS").is_some() && !is_current() {
            std::fs::write(path, document.to_pretty_json().unwrap() + "\n").unwrap();
        }
        assert!(is_current(), "{path} is not current: WEIR_BLESS=1 rewrites it");
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
