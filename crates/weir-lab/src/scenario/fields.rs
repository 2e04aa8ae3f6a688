//! Types of keys of a scenario, besides those of [`weir_document::shape::settings`].

use std::str::FromStr;
use strum::VariantNames;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::shape::settings::{Setting, Written, integer, value};
use weir_document::shape::{Key, Kind, Names, format};
use weir_document::units;

/// A list of strings and numbers.
pub(super) const SCALARS: Kind = Kind::List(&Kind::Scalar);
pub(super) const TIME: Kind = Kind::Format(format::DURATION);
pub(super) const LENGTH: Kind = Kind::Format(format::POSITIVE_DURATION);

/// Values by their names: `${LEVEL.NAME}`.
pub(super) const VALUES: Kind = Kind::Table(Names::Name, &Kind::OneOrMany(&Kind::Scalar));

/// Values of names of `matrix` and `cases`.
pub(super) const ONLY: Key = Key::new(
    "only",
    Kind::Table(Names::Name, &Kind::OneOrMany(&Kind::Scalar)),
    "Only for cells with these values of `matrix` and `cases`. A cell without a contender, request or load is left out.",
);

/// A count, at least one.
pub(super) const fn count<T: TryFrom<u64>>() -> Setting<Written<T>> {
    integer(1, 10_000_000)
}

/// A word of an enumeration.
pub(super) const fn word<T: VariantNames + FromStr>() -> Setting<Written<T>> {
    value(Kind::Enum(T::VARIANTS), parsed)
}

/// A share: 0.05 for `5%`.
pub(super) const fn share() -> Setting<Written<f64>> {
    value(Kind::Format(format::PERCENT), share_of)
}

/// A time above zero, in seconds.
pub(super) const fn seconds() -> Setting<Written<f64>> {
    value(LENGTH, |node| Some(units::duration(node.text()?).ok()?.as_secs_f64()))
}

/// A size in bytes, with a unit or without.
pub(super) const fn bytes() -> Setting<Written<u64>> {
    value(Kind::Either(&[Kind::Integer(0, 1 << 30), Kind::Format(format::SIZE)]), |node| {
        node.scalar()?.integer().or_else(|| units::size(node.text()?).ok())
    })
}

/// A rate per second, `20000/s` or a number.
pub(super) const fn rate() -> Setting<Written<f64>> {
    value(Kind::Either(&[Kind::Integer(1, 10_000_000), Kind::Format(format::RATE)]), rate_of)
}

const CORES: Kind = Kind::Either(&[Kind::Enum(&["all"]), Kind::List(&Kind::Integer(0, 1023))]);

/// Numbers of cores, from 0, or `all`.
pub(super) const fn cores() -> Setting<Written<Vec<usize>>> {
    value(CORES, cores_of)
}

/// Numbers of cores; none are all.
pub(super) fn cores_of(node: &Node) -> Option<Vec<usize>> {
    if node.text().is_some() {
        return Some(Vec::new());
    }
    let core = |node: &Node| node.scalar()?.integer().and_then(|core| core.try_into().ok());
    node.items()?.iter().map(core).collect()
}

/// Names and values of a mapping of scalars.
pub(super) const fn pairs(names: Names) -> Setting<Written<Vec<(String, String)>>> {
    value(Kind::Table(names, &Kind::Scalar), pairs_of)
}

/// A value with a parser.
pub(super) fn parsed<T: FromStr>(node: &Node) -> Option<T> {
    node.text()?.parse().ok()
}

/// 0.05 for `5%`; a number is used as is.
pub(super) fn share_of(node: &Node) -> Option<f64> {
    let text = node.text()?;
    let percent = units::percent(text).ok().map(|hundredths| f64::from(hundredths) / 10_000.0);
    percent.or_else(|| text.parse().ok())
}

/// `100/s`, or a number per second.
pub(super) fn rate_of(node: &Node) -> Option<f64> {
    if let Some(number) = node.scalar()?.integer() {
        return Some(number as f64);
    }
    let (count, per) = units::rate(node.text()?).ok()?;
    Some(count as f64 / per.as_secs_f64())
}

/// Names and values of a mapping of scalars.
pub(super) fn pairs_of(node: &Node) -> Option<Vec<(String, String)>> {
    let pairs = node.members()?.iter();
    Some(pairs.filter_map(|m| Some((m.key.clone(), m.value.text()?.to_owned()))).collect())
}

/// The value of a node; an error is reported at the node.
pub(super) fn valid<T>(
    value: Result<T, impl ToString>,
    node: &Node,
    report: &mut Diagnostics,
) -> Option<T> {
    valid_or_help(value, node, None, report)
}

/// As [`valid`], with a remedy.
pub(super) fn valid_or_help<T>(
    value: Result<T, impl ToString>,
    node: &Node,
    help: Option<&str>,
    report: &mut Diagnostics,
) -> Option<T> {
    let report = |error: &_| {
        let message = ToString::to_string(error);
        report.error(codes::BAD_VALUE, node.at, message).maybe_help(help.map(str::to_owned));
    };
    value.inspect_err(report).ok()
}
