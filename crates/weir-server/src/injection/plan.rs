//! Route and principal of an injected request.

use std::net::{IpAddr, Ipv4Addr};
use weir_auth::{NotAdmitted, RecordedPrincipal, recorded_principal};
use weir_config::{Api, PathPattern, Route, Segment};
use weir_gateway::replay::Replay;
use weir_gateway::route::Found;
use weir_gateway::site::Site;
use weir_http::forwarded::Client;
use weir_http::headers::strip_hop_by_hop;
use weir_http::path::{self, Normal};
use weir_http::problem::Problem;
use weir_model::{RejectionReason, ReplayRequest};
use weir_wire::{Headers, Known};

/// A request as a worker serves it.
pub(super) struct Planned {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) authority: String,
    pub(super) headers: Headers,
    pub(super) client: Client,
    pub(super) replay: Replay,
}

/// Finds the route and the recorded principal.
pub(super) fn plan(site: &Site, request: &ReplayRequest) -> Result<Planned, RejectionReason> {
    let (headers, authority, client) = head(site, request);
    let mut host = String::new();
    weir_gateway::arrival::push_host(&mut host, client.host.as_deref().unwrap_or(&authority));
    let (own_path, query) = match request.target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (request.target.as_str(), None),
    };
    let own_path = path::normalise(own_path).map_err(|_| RejectionReason::RouteGone)?;
    let (api, own) = find(site, &host, &own_path, &request.method, &request.api)?;
    let path = own_path.path.into_owned();
    let mut to = Destination { route: own, method: request.method.clone(), path };
    if let Some(name) = &request.destination {
        if !own.resubmit.targets.contains(name) {
            return Err(RejectionReason::TargetNotListed);
        }
        let other = api.routes.iter().find(|route| route.operation == *name);
        let other = other.ok_or(RejectionReason::TargetNotListed)?;
        to = redirect(api, own, other, &to).ok_or(RejectionReason::TargetUnfit)?;
        // Another route may precede it.
        let path = path::normalise(&to.path).map_err(|_| RejectionReason::TargetUnfit)?;
        let found = find(site, &host, &path, &to.method, &request.api);
        if !found.is_ok_and(|(_, found)| std::ptr::eq(found, other)) {
            return Err(RejectionReason::TargetUnfit);
        }
    }
    let stored = RecordedPrincipal {
        auth: &request.auth,
        subject: &request.principal,
        consumer: &request.consumer,
        scopes: &request.scopes,
    };
    let principal =
        recorded_principal(&site.config, &to.route.access, &stored).map_err(|why| match why {
            NotAdmitted::ConsumerGone => RejectionReason::ConsumerGone,
            NotAdmitted::ScopeMissing => RejectionReason::ScopeMissing,
            NotAdmitted::NoWayIn => RejectionReason::NotAdmitted,
        })?;
    if !to.route.clients.iter().all(|clients| clients.admits(client.address)) {
        return Err(RejectionReason::Rejected(Problem::AddressRefused.slug().to_owned()));
    }
    let mut target = to.path;
    let is_credential = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        site.config.is_credential_parameter(&path::decode_query(name))
    };
    let parts = query.iter().flat_map(|q| q.split('&')).filter(|part| !is_credential(part));
    for (index, part) in parts.enumerate() {
        target.push(if index == 0 { '?' } else { '&' });
        target.push_str(part);
    }
    let replay = Replay {
        of: request.original.to_be_bytes(),
        principal,
        to: request.destination.clone(),
        edited: request.edited,
    };
    Ok(Planned { method: to.method, target, authority, headers, client, replay })
}

/// The route of a path in this API.
fn find<'s>(
    site: &'s Site,
    host: &str,
    path: &Normal<'_>,
    method: &str,
    name: &str,
) -> Result<(&'s Api, &'s Route), RejectionReason> {
    let Found::Route { api, route } = site.router.find(host, &path.path, method) else {
        return Err(RejectionReason::RouteGone);
    };
    (site.router.admit_path(&site.config, (host, method), path, (api, route)))
        .map_err(|_| RejectionReason::RouteGone)?;
    let api = &site.config.apis[api];
    if api.name != name {
        return Err(RejectionReason::RouteGone);
    }
    Ok((api, &api.routes[route]))
}

/// The destination of a request.
struct Destination<'r> {
    route: &'r Route,
    method: String,
    path: String,
}

/// The same request for another route, whose path is built from the parameters of the first route.
/// `None` if the method differs, or a parameter is missing.
fn redirect<'r>(
    api: &Api,
    own: &Route,
    other: &'r Route,
    at: &Destination<'_>,
) -> Option<Destination<'r>> {
    let method = match other.methods.as_slice() {
        [] => at.method.clone(),
        methods if methods.contains(&at.method) => at.method.clone(),
        [only] => only.clone(),
        _ => return None,
    };
    let depth = path::segments(&api.base).count();
    let below: Vec<&str> = path::segments(&at.path).skip(depth).collect();
    let mut path = String::new();
    for segment in path::segments(&at.path).take(depth) {
        path.push('/');
        path.push_str(segment);
    }
    for segment in &other.path.segments {
        path.push('/');
        match segment {
            Segment::Literal(text) => path::encode(text, &mut path),
            Segment::Template(name) => path.push_str(parameter(&own.path, &below, name)?),
        }
    }
    if other.path.wildcard {
        if !own.path.wildcard {
            return None;
        }
        for segment in below.get(own.path.segments.len()..)? {
            path.push('/');
            path.push_str(segment);
        }
    }
    if path.is_empty() {
        path.push('/');
    }
    Some(Destination { route: other, method, path })
}

/// A parameter in the spelling of the path.
fn parameter<'p>(pattern: &PathPattern, below: &[&'p str], name: &str) -> Option<&'p str> {
    let is_it = |segment: &Segment| matches!(segment, Segment::Template(n) if n == name);
    below.get(pattern.segments.iter().position(is_it)?).copied()
}

/// Headers, authority and client of a replay. Forwarding headers were recorded only from trusted
/// proxies, but a replay has another path through proxies.
fn head(site: &Site, request: &ReplayRequest) -> (Headers, String, Client) {
    let named = |name: &str| {
        let found = request.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok()).map(str::to_owned)
    };
    let mut headers = Headers::new();
    for (name, value) in &request.headers {
        if !site.config.is_credential_header(name) {
            headers.push(name, value);
        }
    }
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let address = request.client.unwrap_or(nobody);
    let client = Client::recorded(address, request.https, &site.config.listen, &headers);
    weir_http::forwarded::strip(&mut headers, &[]);
    // Fields listed in `Connection` included: they belonged to the recorded connection.
    let ours = |known: Known| matches!(known, Known::Via | Known::Expect | Known::ContentLength);
    strip_hop_by_hop(&mut headers, ours);
    if !request.body.is_empty() {
        headers.push("content-length", request.body.len().to_string().as_bytes());
    }
    (headers, named("host").unwrap_or_default(), client)
}
