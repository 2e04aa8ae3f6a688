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
        let query: query::Query = parse(&search.query, search.payload)?;
        let translation = query.translate(content);
        let limit = search.limit.clamp(1, MAX_PAGE_HITS);
        let mut body = json!({
            "size": limit,
            "query": {"bool": {"filter": [translation.query]}},
            "sort": [{"time_us": "desc"}, {"id": "desc"}],
            "track_total_hits": false,
            "timeout": format!("{}ms", search.timeout.as_millis()),
            // Headers and bodies are not shown in a page.
            "_source": {"excludes": ["payload"]},
        });
        if let Some(cursor) = search.position()? {
            body["search_after"] = json!([cursor.time, TransactionId(cursor.id)]);
        }
        let payload = query.needs_payload();
        Ok(Self { body, untranslated: translation.untranslated, payload, limit })
    }

    /// The request for a transaction.
    #[must_use]
    pub fn of_transaction(id: TransactionId) -> Value {
        json!({"size": 1, "query": {"term": {"id": id}}, "track_total_hits": false})
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

/// The transaction in the response to [`SearchBody::of_transaction`], as it was recorded; none if
/// there is none. Without payload in its document it counts as expired.
///
/// # Errors
/// It is not the response to a search.
pub fn found_record(response: &[u8]) -> Result<Option<weir_journal::Transaction>, TrackerError> {
    let response = read(response)?;
    let found = sources(&response)?.next().map(recorded);
    Ok(found)
}

/// As [`found_record`], to be shown; with its payload if permitted.
///
/// # Errors
/// As [`found_record`].
pub fn found_transaction(
    response: &[u8],
    payload: bool,
) -> Result<Option<Transaction>, TrackerError> {
    let found = found_record(response)?;
    Ok(found.map(|record| {
        let payload = payload && !record.expired;
        Transaction::new(record, payload)
    }))
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
