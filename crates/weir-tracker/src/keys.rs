//! Business keys, extracted from recorded transactions.

use std::borrow::Cow;

use weir_expr::business_keys::{BusinessKeys, RequestView};
use weir_journal::{Transaction, failpoint};

use crate::content::{self, BodyType};

/// Adds the keys that are extracted from a transaction to those that were recorded with it.
pub fn read_keys(keys: &BusinessKeys, transaction: &mut Transaction) {
    if keys.is_empty() {
        return;
    }
    failpoint::pass("index.keys");
    let request = RequestView {
        method: &transaction.method,
        target: &transaction.target,
        head: &transaction.request_head,
        client: &transaction.client,
        consumer: &transaction.consumer,
    };
    let request_body = text(&transaction.request_head, &transaction.request_body);
    let response_body = text(&transaction.response_head, &transaction.response_body);
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in keys.extract(&request, &request_body, &response_body) {
        let known = |pair: &(String, String)| pair.0 == name && pair.1 == value;
        if !transaction.keys.iter().any(known) {
            found.push((name.to_owned(), value.into_owned()));
        }
    }
    transaction.keys.extend(found);
}

/// A body without its codings; empty if keys are not extracted from such bodies.
fn text<'a>(head: &[u8], body: &'a [u8]) -> Cow<'a, [u8]> {
    if body.is_empty() {
        return Cow::Borrowed(&[]);
    }
    content::decoded(BodyType::from_head(head), body).unwrap_or(Cow::Borrowed(&[]))
}
