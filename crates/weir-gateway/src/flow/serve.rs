//! The effects of serving a request.

use super::{Authentication, Effects};
use crate::context::Context;
use crate::exchange::Exchange;
use crate::explanation::Stage;
use crate::handler::{self, HandlerInput, Served};
use crate::response_cache::{self, Lookup, RouteCache};
use weir_auth::Missing;
use weir_config::Route;
use weir_expr::Scope;
use weir_http::body::RequestBody;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_limit::{Caller, Denial, LimitPlan, LimitStatus, Moment, OnShortage, RouteLimits};

/// The effects of serving.
pub(super) struct Serve;

impl Effects for Serve {
    const CALLS_SCRIPTS: bool = true;

    fn reach(&mut self, _: Stage) {}

    async fn fetch_missing(&mut self, of: &Authentication<'_>, missing: Missing) -> bool {
        of.fetch(missing).await
    }

    fn count_failure(&mut self, of: &Authentication<'_>) -> Result<(), u64> {
        of.count_failure()
    }

    #[inline]
    fn limit(
        &mut self,
        plan: &LimitPlan,
        limits: &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
        on_shortage: OnShortage,
    ) -> Result<Option<LimitStatus>, Denial> {
        plan.admit(limits, caller, scope, now, on_shortage)
    }

    /// If the record has no room in the journal and the request must not be served without one,
    /// nothing is counted, so its quota is refunded.
    fn admit(
        &mut self,
        exchange: &mut Exchange,
        route: &Route,
        body: &mut RequestBody<'_>,
    ) -> Result<(), Problem> {
        let tap = exchange.begin_record(route, body.framing());
        if tap.is_err() {
            let now = exchange.moment();
            exchange.live().site.limits.refund_quota(exchange.decisions.consumer(), now);
            // The limit status is outdated.
            exchange.decisions.limit_status = None;
        }
        body.record(tap?);
        Ok(())
    }

    async fn handle<'a>(
        &mut self,
        input: &mut HandlerInput<'_>,
        body: RequestBody<'a>,
    ) -> Result<Option<Served<'a>>, Rejection> {
        let Context { live, at, route, .. } = input.context;
        let cache = route.cache.as_ref().zip(live.site.route(at).cache.as_ref());
        let lookup = match cache {
            None => Lookup::Bypass,
            Some((settings, store)) => {
                let cache = RouteCache {
                    store,
                    settings,
                    upstream: input.context.decisions.selection.split,
                    is_replay: input.context.arrival.replay.is_some(),
                    stats: &input.context.worker.stats,
                };
                Box::pin(cache.lookup(input.stage(), &body)).await
            }
        };
        let fill = match lookup {
            Lookup::Hit(body) => return Ok(Some(Served::Response(body))),
            Lookup::Fill(mut fill) => {
                fill.take_conditions(&mut input.request.headers);
                Some(fill)
            }
            Lookup::Bypass => None,
        };
        let body = match handler::serve(input, body).await? {
            Served::Response(body) => body,
            upgraded => return Ok(Some(upgraded)),
        };
        let body = match fill {
            Some(fill) => fill.store(input.response, body),
            None => body,
        };
        let caches = &live.site.apis[at.0].caches;
        if !caches.is_empty() {
            response_cache::invalidate(caches, &input.view(), input.response.status);
        }
        Ok(Some(Served::Response(body)))
    }
}
