//! Searches in OpenSearch, for transactions whose node is gone.

use super::recorded::recorded;
use crate::document::{Hit, Page, Transaction};
use crate::search::Cursor;
use crate::tracker::{Search, SearchError, TrackerError, parse};
use crate::{MAX_PAGE_HITS, query};
use serde_json::{Value, json};
use weir_model::TransactionId;
use weir_model::search_sink::Content;

/// A search in the indexes of a sink.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchBody {
    /// The body of `POST /INDEXES/_search`.
    pub body: Value,
    /// Terms that documents cannot answer; see [`query::Translation`](super::Translation).
    pub untranslated: Vec<String>,
    /// The query searches payloads.
    pub payload: bool,
    limit: usize,
}

impl SearchBody {
    /// The request for a page of a search, newest first. The timeout is that of the caller.
    ///
    /// # Errors
    /// The query or the cursor is invalid, or the query needs payload access.
    pub fn new(search: &Search, content: Content) -> Result<Self, SearchError> {
        let query: query::Query = parse(&search.query, search.payload, &search.apis)?;
        let translation = query.translate(content);
        let limit = search.limit.clamp(1, MAX_PAGE_HITS);
        let mut body = json!({
            "size": limit,
            "query": {"bool": {"filter": [translation.query]}},
            "sort": [{"time_us": "desc"}, {"id": "desc"}],
            "track_total_hits": false,
            "timeout": format!("{}ms", search.timeout.as_millis()),
            // Headers and bodies are not shown in a page.
            "_source": {"excludes": ["payload", "words"]},
        });
        if let Some(cursor) = search.position()? {
            body["search_after"] = json!([cursor.time, TransactionId(cursor.id)]);
        }
        let payload = query.needs_payload();
        Ok(Self { body, untranslated: translation.untranslated, payload, limit })
    }

    /// As [`SearchBody::new`], for transactions of some nodes, of each after a cursor: that of the node's
    /// own pages, whose order is the same. The cursor of `search` is not used.
    ///
    /// # Errors
    /// As [`SearchBody::new`].
    pub fn of_nodes(
        search: &Search,
        content: Content,
        nodes: &[(String, Option<String>)],
    ) -> Result<Self, SearchError> {
        let mut alternatives = Vec::with_capacity(nodes.len());
        for (node, cursor) in nodes {
            let mut filter = vec![json!({"term": {"node": node}})];
            if let Some(cursor) = cursor {
                let Cursor { time, id } = cursor.parse().map_err(|_| SearchError::Cursor)?;
                let same = json!({"bool": {"filter": [
                    {"term": {"time_us": time}},
                    {"range": {"id": {"lt": TransactionId(id)}}},
                ]}});
                let before = [json!({"range": {"time_us": {"lt": time}}}), same];
                filter.push(json!({"bool": {"should": before, "minimum_should_match": 1}}));
            }
            alternatives.push(json!({"bool": {"filter": filter}}));
        }
        let mut body = Self::new(&Search { cursor: None, ..search.clone() }, content)?;
        if let Some(filter) = body.body["query"]["bool"]["filter"].as_array_mut() {
            let any = json!({"bool": {"should": alternatives, "minimum_should_match": 1}});
            filter.push(any);
        }
        Ok(body)
    }

    /// The request for a transaction.
    #[must_use]
    pub fn of_transaction(id: TransactionId) -> Value {
        json!({
            "size": 1,
            "query": {"term": {"id": id}},
            "track_total_hits": false,
            "_source": {"excludes": ["words"]},
        })
    }

    /// The page in the response to a search.
    ///
    /// # Errors
    /// It is not the response to a search.
    pub fn page(&self, response: &[u8]) -> Result<Page, TrackerError> {
        let response = read(response)?;
        let mut transactions = Vec::new();
        let mut last = None;
        for source in sources(&response)? {
            let summary = serde_json::from_value::<crate::document::Summary>(source.clone());
            let summary = summary.map_err(TrackerError::unreadable)?;
            last = source["time_us"].as_u64().map(|time| Cursor { time, id: summary.id.0 });
            transactions.push(Hit { summary, ..Hit::default() });
        }
        let timed_out = response["timed_out"] == true;
        let failed = response["_shards"]["failed"].as_u64().is_some_and(|failed| failed > 0);
        let more = transactions.len() == self.limit;
        Ok(Page {
            next: last.filter(|_| more || timed_out).map(|cursor| cursor.to_string()),
            cut: timed_out,
            incomplete: timed_out || failed || !self.untranslated.is_empty(),
            payload: self.payload,
            transactions,
            ..Page::default()
        })
    }
}

/// A transaction as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record. Without payload in its document it counts as expired.
    pub record: weir_journal::Transaction,
    /// Id of the node that recorded it, and its display name; empty without a fleet.
    pub node: (String, String),
}

impl Found {
    /// The transaction to be shown, with its payload if permitted.
    #[must_use]
    pub fn transaction(self, payload: bool) -> Transaction {
        let payload = payload && !self.record.expired;
        Transaction::new(self.record, payload)
    }
}

/// The transaction in the response to [`SearchBody::of_transaction`]; none if there is none.
///
/// # Errors
/// It is not the response to a search.
pub fn found_document(response: &[u8]) -> Result<Option<Found>, TrackerError> {
    let response = read(response)?;
    let found = sources(&response)?.next().map(|source| {
        let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
        Found { record: recorded(source), node: (text("node"), text("node_name")) }
    });
    Ok(found)
}

fn read(response: &[u8]) -> Result<Value, TrackerError> {
    serde_json::from_slice(response)
        .map_err(|error| TrackerError::unreadable(format!("response of OpenSearch: {error}")))
}

fn sources(response: &Value) -> Result<impl Iterator<Item = &Value>, TrackerError> {
    let hits = response["hits"]["hits"].as_array();
    let hits = hits.ok_or_else(|| TrackerError::unreadable("response of OpenSearch: no hits"))?;
    Ok(hits.iter().map(|hit| &hit["_source"]))
}
