//! Equality of values for `const`, `enum` and `uniqueItems`, without copies. Each compared value
//! takes a step.

use super::super::budget::charge;
use super::Data;
use super::compare::Element;
use foldhash::fast::RandomState;
use jsonschema_value as json;
use serde_json::{Number, Value};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::LazyLock;

/// Lists with more items than this are compared by hash.
const FEW: usize = 12;

/// Takes the steps of reading a value.
fn is_compared(element: Element<'_>) -> bool {
    let bytes = i64::from(element.entry().name.length) + element.text_length();
    charge(1 + bytes / 16)
}

/// Whether an element equals this value; numbers are compared mathematically.
pub(super) fn equals_value(element: Element<'_>, expected: &Value) -> bool {
    if !is_compared(element) {
        return false;
    }
    match (element.data(), expected) {
        (Data::Null, Value::Null) => true,
        (Data::Bool(value), Value::Bool(expected)) => value == expected,
        (Data::String(text), Value::String(expected)) => element.document().text(*text) == expected,
        (Data::Number(number), Value::Number(expected)) => {
            json::cmp::equal_numbers(&number, expected)
        }
        (Data::Array(_), Value::Array(expected)) => {
            element.count() == expected.len()
                && element.inside().zip(expected).all(|(item, value)| equals_value(item, value))
        }
        (Data::Object { .. }, Value::Object(expected)) => {
            element.count() == expected.len()
                && element.inside().all(|member| {
                    let expected = expected.get(member.name());
                    expected.is_some_and(|expected| equals_value(member, expected))
                })
        }
        _ => false,
    }
}

/// Whether two elements are equal.
fn equal(one: Element<'_>, other: Element<'_>) -> bool {
    if !(is_compared(one) && is_compared(other)) {
        return false;
    }
    match (one.data(), other.data()) {
        (Data::Null, Data::Null) => true,
        (Data::Bool(one), Data::Bool(other)) => one == other,
        (Data::String(a), Data::String(b)) => {
            a.length == b.length && one.document().text(*a) == other.document().text(*b)
        }
        (Data::Number(one), Data::Number(other)) => json::cmp::equal_numbers(&one, other),
        (Data::Array(a), Data::Array(b)) => {
            a == b && one.inside().zip(other.inside()).all(|(one, other)| equal(one, other))
        }
        (Data::Object { members: a, .. }, Data::Object { members: b, .. }) => {
            a == b
                && one.inside().all(|member| {
                    let same = other.member(member.entry().mark, member.name());
                    same.is_some_and(|other| equal(member, other))
                })
        }
        _ => false,
    }
}

/// Whether all items of a list are different.
pub(super) fn are_unique(list: Element<'_>) -> bool {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    if list.count() <= FEW {
        let mut items = list.inside();
        while let Some(item) = items.next() {
            if items.clone().any(|other| equal(item, other)) {
                return false;
            }
        }
        return true;
    }
    let hashed = list.inside().map(|item| {
        let mut hasher = STATE.build_hasher();
        hash(item, &mut hasher, &STATE);
        (hasher.finish(), item)
    });
    let mut hashed: Vec<_> = hashed.collect();
    hashed.sort_unstable_by_key(|(hash, _)| *hash);
    // Different values rarely have equal hashes: the seed is secret.
    hashed.chunk_by(|one, other| one.0 == other.0).all(|same| {
        let mut pairs = same.iter().enumerate();
        pairs.all(|(at, one)| !same[..at].iter().any(|other| equal(one.1, other.1)))
    })
}

/// Equal values have equal hashes.
fn hash(element: Element<'_>, hasher: &mut impl Hasher, state: &RandomState) {
    if !is_compared(element) {
        return;
    }
    match element.data() {
        Data::Null => 0u8.hash(hasher),
        Data::Bool(value) => value.hash(hasher),
        Data::Number(number) => bits(number).hash(hasher),
        Data::String(text) => element.document().text(*text).hash(hasher),
        Data::Array(items) => {
            items.hash(hasher);
            element.inside().for_each(|item| hash(item, hasher, state));
        }
        Data::Object { .. } => {
            // Independent of the order of members.
            let sum = element.inside().fold(0u64, |sum, member| {
                let mut own = state.build_hasher();
                member.name().hash(&mut own);
                hash(member, &mut own, state);
                sum.wrapping_add(own.finish())
            });
            sum.hash(hasher);
        }
    }
}

/// Equal for numbers that are mathematically equal.
#[expect(clippy::cast_possible_truncation, reason = "a whole number of 63 bits")]
fn bits(number: &Number) -> u64 {
    /// 2 to the 63rd.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if let Some(number) = number.as_i64() {
        return number.cast_unsigned();
    }
    match number.as_f64() {
        Some(number) if number.fract() == 0.0 && (-END..END).contains(&number) => {
            (number as i64).cast_unsigned()
        }
        // Larger integers, too: the equal value is the nearest floating-point number.
        Some(number) => number.to_bits(),
        None => 0,
    }
}
