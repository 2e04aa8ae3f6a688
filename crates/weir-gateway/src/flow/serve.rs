//! The effects of serving a request.

use super::{Authentication, Effects, Handled};
use crate::auth::Missing;
use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::explanation::Stage;
use crate::limit::{Caller, LimitPlan, LimitRejection, LimitStatus, Moment, RouteLimits};
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::response_cache::{self, Lookup, RouteCache};
use crate::worker::Live;
use crate::{calls, files, pool, proxy, reply, script};
use weir_config::expr::Scope;
use weir_config::{Handler, Route};

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

    fn limit(
        &mut self,
        plan: &LimitPlan,
        limits: &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
    ) -> Result<Option<LimitStatus>, LimitRejection> {
        plan.admit(limits, caller, scope, now)
    }

    /// Where there is no room for the record of a request that must not be served without one, nothing
    /// is counted of it, so its place in the quota is given back.
    fn admit(
        &mut self,
        exchange: &mut Exchange,
        route: &Route,
        body: &mut RequestBody<'_>,
    ) -> Result<(), Problem> {
        let begun = exchange.begin_record(route, body.framing());
        if begun.is_err() {
            let now = exchange.worker.shared.limiter.moment(exchange.started, exchange.unix);
            exchange.live().site.limits.refund_quota(exchange.consumer(), now);
            // The limit status is outdated.
            exchange.limit_status = None;
        }
        body.record(begun?);
        Ok(())
    }

    async fn handle<'a>(
        &mut self,
        exchange: &mut Exchange,
        live: &Live,
        route: &Route,
        body: RequestBody<'a>,
    ) -> Result<Handled<'a>, Rejection> {
        let at = exchange.route.ok_or(Problem::Internal)?;
        let cache = route.cache.as_ref().zip(live.site.route(at).cache.as_ref());
        let lookup = match cache {
            None => Lookup::Bypass,
            Some((settings, store)) => {
                let cache = RouteCache {
                    store,
                    settings,
                    upstream: exchange.instead,
                    is_replay: exchange.resubmission.is_some(),
                    stats: &exchange.worker.stats,
                };
                Box::pin(cache.lookup(exchange.split(), &body)).await
            }
        };
        let fill = match lookup {
            Lookup::Hit(body) => return Ok(Handled::Response(body)),
            Lookup::Fill(mut fill) => {
                fill.take_conditions(&mut exchange.request.headers);
                Some(fill)
            }
            Lookup::Bypass => None,
        };
        let mut body = match &route.handler {
            Handler::Reply(_) | Handler::Files(_) => {
                respond_locally(exchange, live, route, body).await?
            }
            Handler::Pool(handler) => {
                Box::pin(pool::answer(exchange, route, handler, body)).await?
            }
            Handler::Proxy(proxy) => proxy::forward(exchange, route, proxy, body).await?,
            Handler::Calls(calls) => Box::pin(calls::answer(exchange, route, calls, body)).await?,
            Handler::Script(script) => script::answer(exchange, route, script, body).await?,
        };
        if exchange.upgraded.is_some() {
            return Ok(Handled::Final(body));
        }
        if let Some(fill) = fill {
            body = fill.store(&mut exchange.response, body);
        }
        let caches = &live.site.apis[at.0].caches;
        response_cache::invalidate(caches, &exchange.view(), exchange.response.status);
        Ok(Handled::Response(body))
    }
}

/// Responds without another program, by `reply` and `files`.
pub(crate) async fn respond_locally<'a>(
    exchange: &mut Exchange,
    live: &Live,
    route: &Route,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let at = exchange.route.ok_or(Problem::Internal)?;
    match &route.handler {
        Handler::Reply(reply) => {
            let plan = live.site.route(at).reply.as_ref().ok_or(Problem::Internal)?;
            reply::answer(exchange.split(), reply, plan, body).await
        }
        _ => {
            let root = live.route(at).files.as_ref().ok_or(Problem::Internal)?;
            body.drop_at_hand()?;
            files::index_paths(exchange.request.path(), root)
                .try_for_each(|path| exchange.admit_name(&path))?;
            files::respond(exchange.split(), route, root).await
        }
    }
}
