//! Resources of a page: requested after it, as parts of its sample.

use super::cookies;
use super::event_loop::Loop;
use super::plan::PreparedRequest;
use super::send::{ExchangeTotals, body_of};
use super::user::User;
use crate::markup;
use crate::program::{Origin, Resources};
use crate::sample::ErrorKind;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_wire::Known;

/// Deepest nesting of frames and style sheets, as in JMeter.
const MAX_DEPTH: usize = 5;
/// Most resources of a sample.
const MAX_RESOURCES: usize = 1000;

/// A resource to request: how deep in frames, and its URL.
type Place = (usize, String);

/// What a resource has.
struct Loaded {
    sum: ExchangeTotals,
    fault: Option<ErrorKind>,
    /// Its own resources, the last one first.
    links: Vec<Place>,
}

/// The figures of a page, to which those of its resources are added.
struct Page<'s> {
    sum: &'s mut ExchangeTotals,
    /// Requested resources.
    loaded: usize,
    failure: Option<ErrorKind>,
}

impl Page<'_> {
    /// Adds a resource. Returns its own ones, of which `waiting` others leave room for so many.
    fn add(&mut self, resource: Loaded, waiting: usize) -> Vec<Place> {
        let Loaded { sum, fault, mut links } = resource;
        self.sum.end = self.sum.end.max(sum.end);
        self.sum.received += sum.received;
        self.sum.sent += sum.sent;
        self.sum.body += sum.body;
        self.failure = self.failure.or(fault);
        // Reversed: the last ones are the first ones of the page.
        let most = MAX_RESOURCES.saturating_sub(self.loaded + waiting);
        links.drain(..links.len().saturating_sub(most));
        match links.first() {
            // JMeter fails a sample with deeper frames.
            Some((depth, _)) if *depth >= MAX_DEPTH => {
                self.failure = self.failure.or(Some(ErrorKind::Request));
                Vec::new()
            }
            _ => links,
        }
    }
}

impl User {
    /// Requests the resources of the last response and adds their figures, if the request has this option and its
    /// status is good. Returns the kind of a failure.
    pub(super) async fn load_resources(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        sum: &mut ExchangeTotals,
    ) -> Option<ErrorKind> {
        let resources = prepared.request.client.resources.as_ref()?;
        if !(200..400).contains(&sum.status) {
            return None;
        }
        // Boxed: rare, and otherwise part of the memory of every user.
        Box::pin(self.load_all(events, prepared, resources, sum)).await
    }

    async fn load_all(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        resources: &Resources,
        sum: &mut ExchangeTotals,
    ) -> Option<ErrorKind> {
        let url = match (&sum.url, &prepared.encoded) {
            (Some(url), _) => url.clone(),
            (None, Some(encoded)) => encoded.url.clone(),
            (None, None) => return None,
        };
        let open = self.links(resources, &url, 0);
        // The page is what is checked, and the buffers are those of the next requests.
        let kept = (std::mem::take(&mut self.captured), std::mem::take(&mut self.message));
        let mut page = Page { sum, loaded: 0, failure: None };
        match resources.parallel {
            0 | 1 => self.load_in_turn(events, prepared, open, &mut page).await,
            _ => self.load_in_parallel(events, prepared, open, &mut page).await,
        }
        (self.captured, self.message) = kept;
        page.failure
    }

    /// One after the other.
    async fn load_in_turn(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        mut open: Vec<Place>,
        page: &mut Page<'_>,
    ) {
        while let Some(place) = open.pop() {
            page.loaded += 1;
            if self.must_end() || page.loaded > MAX_RESOURCES {
                return;
            }
            self.now = page.sum.end;
            if let Some(resource) = self.load_resource(events, prepared, &place).await {
                open.extend(page.add(resource, open.len()));
            }
        }
    }

    /// Several at the same time, each by a worker with connections of its own. As in JMeter, each has the
    /// cookies of its page or frame.
    async fn load_in_parallel(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        open: Vec<Place>,
        page: &mut Page<'_>,
    ) {
        // With the number of the page or frame.
        let mut open: Vec<(usize, Place)> = open.into_iter().map(|place| (0, place)).collect();
        let mut jars = BTreeMap::from([(0, (0, std::mem::take(&mut self.jar)))]);
        let most = prepared.request.client.resources.as_ref().map_or(1, |all| all.parallel);
        let mut idle = std::mem::take(&mut self.workers);
        let mut running = FuturesUnordered::new();
        self.now = page.sum.end;
        loop {
            while running.len() < most
                && !self.must_end()
                && page.loaded < MAX_RESOURCES
                && let Some((of, place)) = open.pop()
            {
                page.loaded += 1;
                let number = page.loaded;
                let mut worker = idle.pop().unwrap_or_else(|| self.worker());
                worker.join(self);
                worker.jar = jars.get(&of).map(|(_, jar)| jar.clone()).unwrap_or_default();
                running.push(async move {
                    worker.now = events.now();
                    let resource = worker.load_resource(events, prepared, &place).await;
                    (worker, number, of, resource)
                });
            }
            let Some((mut worker, number, of, resource)) = running.next().await else { break };
            worker.captured.clear();
            jars.insert(number, (of, std::mem::take(&mut worker.jar)));
            idle.push(worker);
            if let Some(resource) = resource {
                let own = page.add(resource, open.len());
                open.extend(own.into_iter().map(|place| (number, place)));
            }
        }
        drop(running);
        self.workers = idle;
        self.jar = cookies::merged(jars);
    }

    /// Requests a resource; `None` if the cache has it, or its URL is none of HTTP.
    async fn load_resource(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        (depth, url): &Place,
    ) -> Option<Loaded> {
        let (origin, target) = Origin::parse(url).ok()?;
        let mut sum = ExchangeTotals::default();
        let sent = match self.build(prepared, Arc::new(origin), target, (0, true)) {
            Ok(destination) if self.is_cached(prepared, &destination) => return None,
            Ok(destination) => self.send(events, prepared, destination, &mut sum).await,
            Err(fault) => Err(fault),
        };
        if sum.end == 0 {
            sum.end = events.now();
        }
        let fault = match sent {
            Ok(()) if (200..400).contains(&sum.status) => None,
            Ok(()) => Some(ErrorKind::from_status(sum.status)),
            Err(fault) => Some(fault.kind),
        };
        let resources = prepared.request.client.resources.as_ref().filter(|_| fault.is_none());
        let links = resources.map_or_else(Vec::new, |all| self.links(all, url, depth + 1));
        Some(Loaded { sum, fault, links })
    }

    /// Resources of the last response.
    fn links(&self, resources: &Resources, url: &str, depth: usize) -> Vec<Place> {
        let content_type = self.captured.headers().known(Known::ContentType).unwrap_or_default();
        let content_type = String::from_utf8_lossy(content_type);
        let body = body_of(&self.captured, false);
        let text = String::from_utf8_lossy(&body);
        let media = content_type.split(';').next().unwrap_or_default().trim();
        let mut links = match media {
            "text/html" | "application/xhtml+xml" | "application/xml" | "text/xml" => {
                markup::links_of_html(&text, url)
            }
            "text/css" => markup::links_of_css(&text, url),
            _ => Vec::new(),
        };
        let matches = |pattern: &Option<crate::pattern::Pattern>, url: &String| {
            pattern.as_ref().map(|pattern| pattern.matches(url.as_bytes()).unwrap_or(false))
        };
        links.retain(|url| {
            matches(&resources.allowed, url) != Some(false)
                && matches(&resources.excluded, url) != Some(true)
        });
        // The first one is the next one.
        links.into_iter().rev().map(|link| (depth, link)).collect()
    }
}
