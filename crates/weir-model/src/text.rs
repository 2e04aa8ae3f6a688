//! Ids and times as text.

use crate::Amount;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// The id of a transaction. As text: a UUID (RFC 9562).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u128);

/// A time in microseconds since 1970. As text: RFC 3339, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMicros(pub u64);

/// A time in seconds since 1970. As text: RFC 3339, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub u64);

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_u128(self.0).fmt(f)
    }
}

impl FromStr for TransactionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        uuid::Uuid::try_parse(text).map(|id| Self(id.as_u128()))
    }
}

impl fmt::Display for UnixMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0).ok();
        let time = time.and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
        time.unwrap_or_default().fmt(f)
    }
}

impl FromStr for UnixMicros {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time: jiff::Timestamp = text.parse()?;
        Ok(Self(time.as_microsecond().try_into().unwrap_or(0)))
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0).ok();
        let time = time.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        time.unwrap_or(jiff::Timestamp::MAX).fmt(f)
    }
}

impl FromStr for UnixSeconds {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time: jiff::Timestamp = text.parse()?;
        Ok(Self(time.as_second().try_into().unwrap_or(0)))
    }
}

impl TransactionId {
    /// The text of the id, in `buffer`: for each document that is written, without the machinery of
    /// formatting.
    #[must_use]
    pub fn encode(self, buffer: &mut [u8; 36]) -> &str {
        uuid::Uuid::from_u128(self.0).hyphenated().encode_lower(buffer)
    }
}

impl Serialize for TransactionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.encode(&mut [0; 36]))
    }
}

macro_rules! written_as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

written_as_text!(Amount, UnixMicros, UnixSeconds);

macro_rules! read_from_text {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

read_from_text!(Amount, TransactionId, UnixMicros, UnixSeconds);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let id = TransactionId(0x019a_9e3c_4c5e_7d2a_9b1f_3f6d_2c1e_0a55);
        assert_eq!(id.to_string(), "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55");
        assert_eq!(id.to_string().parse(), Ok(id));
        let time = UnixMicros(1_700_000_000_000_001);
        assert_eq!(time.to_string(), "2023-11-14T22:13:20.000001Z");
        assert_eq!(time.to_string().parse::<UnixMicros>().unwrap(), time);
        let time = UnixSeconds(1_700_000_000);
        assert_eq!(time.to_string(), "2023-11-14T22:13:20Z");
        assert_eq!(time.to_string().parse::<UnixSeconds>().unwrap(), time);
        assert!("yesterday".parse::<UnixMicros>().is_err());
    }
}
