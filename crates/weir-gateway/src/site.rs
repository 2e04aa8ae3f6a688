//! A compiled Config, shared by all workers and immutable.

use crate::compiled::Compiled;
use crate::digest::ConfigurationDigest;
use crate::route::Router;
use crate::route_runtime::{ApiRuntime, RouteRuntime};
use crate::script_engine::ScriptPlan;
use std::io;
use std::sync::Arc;
use weir_auth::VerificationKeys;
use weir_auth::introspect::{self, Introspection};
use weir_auth::key_set::{self, KeySet};
use weir_broker::{Broker, PoolHandle};
use weir_config::Config;
use weir_limit::{LimitPlan, Limiter};
use weir_net::tls::{Certificates, ServerTls, TlsError, UpstreamClients};
use weir_record::redaction::Redaction;
use weir_validate::Schemas;

/// Reason why a Config cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A certificate cannot be loaded or created.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Scripts exceed their memory limit.
    #[error(transparent)]
    Scripts(#[from] weir_script::EngineError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The folder for the sockets of agents cannot be created.
    #[error("cannot start pools: {0}")]
    Broker(io::Error),
}

/// The state of one Config that all workers share.
#[derive(Debug)]
pub struct Site {
    /// The Config.
    pub config: Arc<Config>,
    /// Finds API and route.
    pub router: Router,
    /// TLS settings by listener.
    pub tls: Vec<Option<ServerTls>>,
    /// Certificates of listeners and upstreams.
    pub certificates: Arc<Certificates>,
    /// TLS settings by upstream.
    pub upstream_clients: Arc<UpstreamClients>,
    /// Rate limits and quotas.
    pub limits: LimitPlan,
    /// Compiled routes, API after API.
    pub routes: Box<[RouteRuntime]>,
    /// Compiled APIs.
    pub apis: Box<[ApiRuntime]>,
    pub(crate) scripts: ScriptPlan,
    /// Keys by auth that the configuration contains.
    pub(crate) verification_keys: VerificationKeys,
    /// Schemas that bodies and parameters are compared with.
    pub(crate) schemas: Schemas,
    /// Keys by auth that are fetched.
    pub key_sets: Vec<Option<Arc<KeySet>>>,
    /// Token introspection, by auth.
    pub introspections: Vec<Option<Arc<Introspection>>>,
    /// Limits of request heads.
    pub wire_limits: weir_wire::HeadLimits,
    /// Pools, by id.
    pub(crate) pools: Vec<Arc<PoolHandle>>,
    /// Redaction rules for recording.
    pub(crate) redaction: Redaction,
    /// Digest of the configuration.
    pub digest: Arc<ConfigurationDigest>,
}

impl Site {
    /// Compiles a Config; TLS sessions of `before` are kept if the certificates are unchanged.
    ///
    /// # Errors
    /// A certificate cannot be loaded or created, the folder of pools cannot be created, or scripts
    /// exceed their memory limit.
    pub fn new(
        config: Arc<Config>,
        compiled: Compiled,
        limiter: &Arc<Limiter>,
        broker: &Broker,
        before: Option<&Self>,
    ) -> Result<Self, SiteError> {
        let mut tls = Vec::with_capacity(config.listen.len());
        for (index, listener) in config.listen.iter().enumerate() {
            let before = before.and_then(|site| site.tls.get(index)?.as_ref());
            let settings = listener.tls.as_ref();
            let clients = listener.clients.as_ref();
            let certificates = &compiled.certificates;
            let server =
                settings.map(|s| ServerTls::new(s, clients, certificates, &config.data, before));
            tls.push(server.transpose()?);
        }
        let mut site = Self::unconnected(config, compiled, limiter, before)?;
        site.tls = tls;
        // Last: earlier errors have started nothing.
        site.pools = broker.pools(&site.config.pools).map_err(SiteError::Broker)?;
        Ok(site)
    }

    /// A Site for explain, not for serving: without TLS and pools, so no certificate is created and
    /// no agent is started.
    ///
    /// # Errors
    /// Scripts exceed their memory limit.
    pub(crate) fn unconnected(
        config: Arc<Config>,
        compiled: Compiled,
        limiter: &Arc<Limiter>,
        before: Option<&Self>,
    ) -> Result<Self, SiteError> {
        let (scripts, of_routes) = ScriptPlan::new(&config, before.map(|site| &site.scripts))?;
        let (limits, route_limits) = LimitPlan::new(limiter, &config, limiter.now());
        let routes = config.apis.iter().flat_map(|api| &api.routes).zip(of_routes);
        let routes = routes.zip(route_limits);
        let routes: Box<[RouteRuntime]> = routes
            .map(|((route, scripts), limits)| RouteRuntime::new(route, scripts, limits))
            .collect();
        let mut first_route = 0;
        let apis = config.apis.iter().map(|api| {
            let first = first_route;
            first_route += api.routes.len();
            let caches = routes[first..first_route].iter().flat_map(|route| route.cache.clone());
            ApiRuntime { first_route: first, caches: caches.collect() }
        });
        let apis = apis.collect();
        Ok(Self {
            router: Router::new(&config),
            scripts,
            routes,
            apis,
            introspections: introspect::all(
                &config,
                before.map(|site| site.introspections.as_slice()),
            ),
            verification_keys: compiled.verification_keys,
            schemas: compiled.schemas,
            key_sets: key_set::all(&config, before.map(|site| site.key_sets.as_slice())),
            tls: Vec::new(),
            certificates: compiled.certificates,
            upstream_clients: compiled.upstream_clients,
            digest: compiled.digest,
            limits,
            pools: Vec::new(),
            redaction: Redaction::new(&config),
            wire_limits: weir_wire::HeadLimits {
                bytes: config.limits.header_bytes,
                fields: config.limits.headers,
                target: config.limits.url,
            },
            config,
        })
    }

    /// A compiled route, by the indexes of its API and of itself.
    pub fn route(&self, (api, route): (usize, usize)) -> &RouteRuntime {
        &self.routes[self.route_index((api, route))]
    }

    /// The index of a route in the list of all routes.
    pub(crate) fn route_index(&self, (api, route): (usize, usize)) -> usize {
        self.apis[api].first_route + route
    }
}
