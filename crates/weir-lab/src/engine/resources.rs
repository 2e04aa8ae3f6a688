//! Resources of a page: requested after it, as parts of its sample.

use super::event_loop::Loop;
use super::plan::PreparedRequest;
use super::send::{ExchangeTotals, body_of};
use super::user::User;
use crate::markup;
use crate::program::{Origin, Resources};
use crate::sample::ErrorKind;
use std::sync::Arc;
use weir_wire::Known;

/// Deepest nesting of frames and style sheets, as in JMeter.
const MAX_DEPTH: usize = 5;
/// Most resources of a sample.
const MAX_RESOURCES: usize = 1000;

impl User {
    /// Requests the resources of the last response, one after the other, and adds their figures.
    /// Returns the kind of the first failure.
    pub(super) async fn load_resources(
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
        let mut failure = None;
        let mut open: Vec<(usize, String)> = self.links(resources, &url, 0);
        // The page is what is checked, and the buffers are those of the next requests.
        let page = (std::mem::take(&mut self.captured), std::mem::take(&mut self.message));
        let mut loaded = 0;
        while let Some((depth, url)) = open.pop() {
            loaded += 1;
            if self.must_end() || loaded > MAX_RESOURCES {
                break;
            }
            let Ok((origin, target)) = Origin::parse(&url) else { continue };
            if prepared.request.client.cache.is_some_and(|cache| cache.expires)
                && self.cache.is_fresh(&url)
            {
                continue;
            }
            self.now = sum.end;
            let mut part = ExchangeTotals::default();
            let sent = match self.build(prepared, Arc::new(origin), target, (0, true)) {
                Ok(destination) => self.send(events, prepared, destination, &mut part).await,
                Err(fault) => Err(fault),
            };
            sum.end = if part.end == 0 { events.now() } else { part.end };
            sum.received += part.received;
            sum.sent += part.sent;
            sum.body += part.body;
            let fault = match sent {
                Ok(()) if (200..400).contains(&part.status) => None,
                Ok(()) => Some(ErrorKind::from_status(part.status)),
                Err(fault) => Some(fault.kind),
            };
            match fault {
                None => {
                    let links = self.links(resources, &url, depth + 1);
                    // JMeter fails a sample with deeper frames.
                    match depth + 1 < MAX_DEPTH {
                        true => open.extend(links),
                        false if links.is_empty() => {}
                        false => failure = failure.or(Some(ErrorKind::Request)),
                    }
                }
                fault => failure = failure.or(fault),
            }
        }
        (self.captured, self.message) = page;
        failure
    }

    /// Resources of the last response.
    fn links(&self, resources: &Resources, url: &str, depth: usize) -> Vec<(usize, String)> {
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
