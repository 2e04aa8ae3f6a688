//! Statuses of calls (`grpc/doc/statuscodes.md`).

use std::fmt;
use strum::VariantArray;

/// The status of a call, with the number of the protocol.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::FromRepr,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of the protocol")]
pub enum Status {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Status {
    /// The status of a `grpc-status` field; numbers that the protocol does not have are `UNKNOWN`.
    /// `None` if the value is no number.
    pub fn of_field(value: &[u8]) -> Option<Self> {
        let number: u32 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
        Some(u8::try_from(number).ok().and_then(Self::from_repr).unwrap_or(Self::Unknown))
    }

    /// Its name, such as `UNAVAILABLE`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A set of statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statuses(u32);

impl Statuses {
    /// The statuses with these names or numbers, in any case.
    ///
    /// # Errors
    /// The first text that is none.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let mut set = Self::default();
        for text in texts {
            let text = text.trim();
            let by_number = || text.parse::<u8>().ok().and_then(Status::from_repr);
            let status = text.to_ascii_uppercase().parse().ok().or_else(by_number);
            let status: Status = status.ok_or_else(|| text.to_owned())?;
            set.0 |= 1 << status as u8;
        }
        Ok(set)
    }

    /// Whether the set contains a status.
    pub fn contains(self, status: Status) -> bool {
        self.0 & (1 << status as u8) != 0
    }

    /// All other statuses.
    #[must_use]
    pub fn complement(self) -> Self {
        Self(!self.0 & ((1 << Status::VARIANTS.len()) - 1))
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Status::VARIANTS.iter().filter(|status| self.contains(**status));
        let names: Vec<&str> = all.map(|status| status.name()).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_statuses() {
        let set = Statuses::parse(["OK", "not_found", "14"]).unwrap();
        assert_eq!(set.to_string(), "OK, NOT_FOUND, UNAVAILABLE");
        assert!(set.contains(Status::NotFound) && !set.contains(Status::Aborted));
        assert!(!set.complement().contains(Status::Ok));
        assert_eq!(Statuses::parse(["OK", "FINE"]), Err("FINE".to_owned()));
        assert_eq!(Statuses::parse(["17"]), Err("17".to_owned()));
    }

    #[test]
    fn fields_are_statuses() {
        assert_eq!(Status::of_field(b"14").map(Status::name), Some("UNAVAILABLE"));
        assert_eq!(Status::of_field(b"99"), Some(Status::Unknown));
        assert_eq!(Status::of_field(b"300"), Some(Status::Unknown));
        assert_eq!(Status::of_field(b"OK"), None);
        assert_eq!(Status::of_field(b""), None);
    }
}
