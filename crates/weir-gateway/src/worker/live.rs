//! A Config as served by one worker: the shared Site, and the state of this worker.

use crate::arrival::Arrival;
use crate::decisions::Decisions;
use crate::script_engine::EngineSlot;
use crate::site::Site;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use weir_auth::{AuthCounters, Authenticator, Remote, RevokedKeys};
use weir_config::{Handler, Traces};
use weir_files::Root;
use weir_model::UpstreamId;
use weir_record::client_request::ClientRequest;
use weir_record::redaction::BodySettings;
use weir_telemetry::labels::method_label;
use weir_telemetry::stats::{Durations, SeriesKey, WorkerStats};
use weir_upstream::{Healths, Upstream};
use weir_wire::RequestHead;

/// Durations by method and status, for one operation.
type Series = RefCell<Vec<(&'static str, u16, Arc<Durations>)>>;

/// State of a route in one worker.
#[derive(Debug)]
pub struct RouteState {
    series: Series,
    /// The folder of its files; `None` for another handler.
    pub(crate) files: Option<Root>,
}

/// A Config as served by one worker.
#[derive(Debug)]
pub struct Live {
    /// The Site.
    pub site: Arc<Site>,
    pub(crate) authenticator: Authenticator,
    /// Upstreams, in the order of the configuration.
    pub upstreams: Vec<Upstream>,
    /// This worker's script engine.
    pub(crate) scripts: Rc<EngineSlot>,
    pub(crate) bodies: Rc<BodySettings>,
    /// State of the routes, API after API.
    routes: Box<[RouteState]>,
    /// Durations of requests without a route, by API; the last entry is for requests without an
    /// API.
    unrouted: Box<[Series]>,
}

impl Live {
    /// Builds the state of a Site for one worker; connections of `before` are kept.
    pub fn new(
        site: Arc<Site>,
        stats: &WorkerStats,
        auth_counters: &Arc<AuthCounters>,
        (healths, revoked_keys): (&Healths, &RevokedKeys),
        before: Option<&Self>,
    ) -> Self {
        let config = &site.config;
        let upstreams = config.upstreams.iter().enumerate().map(|(index, upstream)| {
            let client = site.upstream_clients.get(UpstreamId(index));
            let same = before.and_then(|live| live.upstream(&upstream.name));
            Upstream::new(upstream, client, config.workers, stats, healths, same)
        });
        let upstreams = upstreams.collect();
        let remote =
            Remote { key_sets: site.key_sets.clone(), introspections: site.introspections.clone() };
        let (counters, keys) = (Arc::clone(auth_counters), site.verification_keys.clone());
        let authenticator = Authenticator::new(config, counters, keys, remote, revoked_keys);
        let routes = config.apis.iter().flat_map(|api| &api.routes).map(|route| {
            let files = match &route.handler {
                Handler::Files(files) => Some(Root::new(files, config.workers)),
                _ => None,
            };
            RouteState { series: Series::default(), files }
        });
        let routes = routes.collect();
        let unrouted = (0..=config.apis.len()).map(|_| Series::default()).collect();
        let same = before.filter(|live| live.scripts.serves(&site.scripts));
        let scripts = same.map_or_else(
            || Rc::new(EngineSlot::new(&site.scripts)),
            |live| Rc::clone(&live.scripts),
        );
        let bodies = Rc::new(BodySettings::new(&config.tracker));
        Self { authenticator, upstreams, scripts, bodies, routes, unrouted, site }
    }

    /// Sampling of traces, if configured.
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.site.config.telemetry.as_ref()?.traces.as_ref()
    }

    fn upstream(&self, name: &str) -> Option<&Upstream> {
        let at = self.site.config.upstreams.iter().position(|u| u.name == name)?;
        Some(&self.upstreams[at])
    }

    /// Closes idle connections of targets that `next` does not have.
    pub(crate) fn retire_all_but(&self, next: &Self) {
        let kept = |target| {
            next.upstreams.iter().flat_map(|u| &u.targets).any(|other| Rc::ptr_eq(target, other))
        };
        for target in self.upstreams.iter().flat_map(|u| &u.targets).filter(|t| !kept(t)) {
            target.drain();
        }
    }

    /// Evicts idle upstream connections.
    pub fn sweep(&self) {
        for target in self.upstreams.iter().flat_map(|upstream| &upstream.targets) {
            target.tick();
        }
    }

    /// State of a route in this worker, by the indexes of API and route.
    pub fn route(&self, route: (usize, usize)) -> &RouteState {
        &self.routes[self.site.route_index(route)]
    }

    /// A read-only view of a request.
    #[inline]
    pub(crate) fn view<'a>(
        &'a self,
        head: &'a RequestHead,
        Arrival { host, client, .. }: &'a Arrival,
        &Decisions { api, route, ref principal, ref refused, .. }: &'a Decisions,
    ) -> ClientRequest<'a> {
        let (config, principal) = (&*self.site.config, principal.as_deref());
        let refused = refused.as_deref();
        let depth = route.map_or(0, |(api, _)| self.site.router.depth(api));
        let route = route.map(|(api, route)| &config.apis[api].routes[route]);
        let api = api.map(|api| &config.apis[api]);
        ClientRequest { head, host, client, config, api, route, depth, principal, refused }
    }

    /// Records a response in the series of its operation, method and status.
    pub(crate) fn record_duration(
        &self,
        decisions: &Decisions,
        request: &ClientRequest<'_>,
        status: u16,
        stats: &WorkerStats,
        record: impl FnOnce(&Durations),
    ) {
        let series = match (decisions.api, decisions.route) {
            (_, Some(route)) => &self.route(route).series,
            (Some(api), None) => &self.unrouted[api],
            (None, None) => &self.unrouted[self.unrouted.len() - 1],
        };
        let method = method_label(request.head.method);
        let mut series = series.borrow_mut();
        let own = series.iter().find(|(m, s, _)| (*m, *s) == (method, status));
        // Once the overflow series exists, no series is added.
        if let Some((_, _, found)) = own.or_else(|| series.iter().find(|(m, ..)| m.is_empty())) {
            return record(found);
        }
        let key = SeriesKey {
            api: request.api.map(|api| api.name.clone()).unwrap_or_default(),
            operation: request.route.map(|route| route.operation.clone()).unwrap_or_default(),
            path: request.pattern(),
            method,
            status,
        };
        let (method, durations) = stats.series(key);
        record(&durations);
        series.push((method, status, durations));
    }
}
