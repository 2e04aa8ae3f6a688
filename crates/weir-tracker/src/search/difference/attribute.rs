//! The attributes that are compared.

use std::borrow::Cow;

use weir_journal::Transaction;

use crate::field::{Name, Number, cut};
use crate::part::row;
use crate::query::{Query, Term};

/// An attribute of a transaction.
pub(super) struct Attribute {
    pub(super) field: &'static str,
    /// The column of the index with it.
    column: Option<Name>,
    /// Whether it says how a transaction ended.
    is_outcome: bool,
    pub(super) value: fn(&Transaction) -> Cow<'_, str>,
}

const fn name(
    field: &'static str,
    column: Name,
    value: fn(&Transaction) -> Cow<'_, str>,
) -> Attribute {
    let is_outcome = matches!(column, Name::Problem | Name::Detail);
    Attribute { field, column: Some(column), is_outcome, value }
}

const fn other(field: &'static str, value: fn(&Transaction) -> Cow<'_, str>) -> Attribute {
    Attribute { field, column: None, is_outcome: false, value }
}

pub(super) const ATTRIBUTES: [Attribute; 15] = [
    name("api", Name::Api, |one| Cow::Borrowed(&one.api)),
    name("operation", Name::Operation, |one| Cow::Borrowed(&one.operation)),
    name("type", Name::Type, |one| Cow::Borrowed(row::transaction_type(one))),
    name("method", Name::Method, |one| Cow::Borrowed(&one.method)),
    name("consumer", Name::Consumer, |one| Cow::Borrowed(&one.consumer)),
    name("plan", Name::Plan, |one| Cow::Borrowed(&one.plan)),
    name("client", Name::Sender, |one| Cow::Borrowed(&one.client)),
    name("upstream", Name::Receiver, |one| Cow::Borrowed(&one.upstream)),
    name("upstream_target", Name::UpstreamTarget, |one| Cow::Borrowed(&one.upstream_target)),
    name("configuration", Name::Configuration, |one| Cow::Borrowed(&one.configuration)),
    name("problem", Name::Problem, |one| Cow::Borrowed(&one.problem)),
    name("detail", Name::Detail, |one| Cow::Borrowed(&one.detail)),
    other("path", |one| Cow::Borrowed(cut(row::path(one)))),
    other("request_size", |one| Cow::Borrowed(size(one.request.length))),
    other("retries", |one| Cow::Owned(one.retries.to_string())),
];

/// A class of sizes in bytes.
fn size(bytes: u64) -> &'static str {
    match bytes {
        0 => "no body",
        1..0x400 => "under 1 KiB",
        0x400..0x2800 => "1 to 10 KiB",
        0x2800..0x1_9000 => "10 to 100 KiB",
        0x1_9000..0x10_0000 => "100 KiB to 1 MiB",
        _ => "1 MiB and more",
    }
}

/// Whether the group is defined by it: it has a condition for the field, or for how transactions end and the
/// attribute says nothing else.
pub(super) fn is_part_of(attribute: &Attribute, group: &Query) -> bool {
    let is_outcome = |term: &Term| match term {
        Term::Number(number, ..) => matches!(number, Number::Status | Number::State),
        Term::Name(name, _) => matches!(name, Name::Problem | Name::Detail),
        Term::Resolution(_) => true,
        _ => false,
    };
    group.root.any(&|term| {
        matches!(term, Term::Name(name, _) if attribute.column == Some(*name))
            || attribute.is_outcome && is_outcome(term)
    })
}

#[cfg(test)]
mod tests {
    use super::{ATTRIBUTES, is_part_of, size};
    use crate::query::Query;

    #[test]
    fn a_group_is_not_explained_by_its_own_definition() {
        let left_out = |query: &str| {
            let query = Query::parse(query, 0).unwrap();
            let all = ATTRIBUTES.iter().filter(|one| is_part_of(one, &query));
            all.map(|one| one.field).collect::<Vec<_>>()
        };
        assert_eq!(left_out("api:a OR -consumer:b"), ["api", "consumer"]);
        assert_eq!(left_out("status:5xx"), ["problem", "detail"]);
        assert_eq!(left_out("resolution:open upstream:x"), ["upstream", "problem", "detail"]);
        assert_eq!(left_out("took:>1s word"), [""; 0]);
    }

    #[test]
    fn sizes_have_classes() {
        let all = [0, 1, 1023, 1024, 10_239, 10_240, 102_399, 102_400, 1 << 20];
        let classes = all.map(size);
        assert_eq!(classes[..3], ["no body", "under 1 KiB", "under 1 KiB"]);
        assert_eq!(classes[3..5], ["1 to 10 KiB"; 2]);
        assert_eq!(classes[5..7], ["10 to 100 KiB"; 2]);
        assert_eq!(classes[7..], ["100 KiB to 1 MiB", "1 MiB and more"]);
    }
}
