//! Ids of transactions on the command line: complete, or the characters that they begin with.

use super::print_candidates;
use super::search::{PageRequest, page, request_page};
use crate::admin_client::AdminClient;
use crate::commands::data_source::DataSource;
use crate::output;
use anyhow::bail;
use std::str::FromStr;
use uuid::Uuid;
use weir_tracker::document::{Page, Summary};

/// Fewest digits of a part of an id.
const MIN_DIGITS: usize = 4;
/// Digits of an id.
const DIGITS: usize = 32;
/// Most transactions that are listed for an ambiguous part.
const MAX_CANDIDATES: usize = 10;

/// An id, or its first digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IdPrefix {
    Complete(Uuid),
    /// Hexadecimal digits, and hyphens.
    Part(String),
}

impl FromStr for IdPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A table cuts texts with this sign.
        let text = text.strip_suffix('…').unwrap_or(text);
        if let Ok(id) = Uuid::try_parse(text) {
            return Ok(Self::Complete(id));
        }
        let digits = text.chars().filter(|letter| *letter != '-').count();
        let is_part = text.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit());
        if is_part && (MIN_DIGITS..DIGITS).contains(&digits) {
            return Ok(Self::Part(text.to_ascii_lowercase()));
        }
        Err(format!(
            "'{text}' is not a transaction id, such as 019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55, or at \
             least the first {MIN_DIGITS} of its digits"
        ))
    }
}

impl IdPrefix {
    /// The id of the only transaction that begins so.
    ///
    /// # Errors
    /// There is none, or there are several, which are listed on standard error.
    pub(crate) fn find(&self, source: &DataSource) -> anyhow::Result<Uuid> {
        self.find_by(|query| page(source, &PageRequest::first(query, MAX_CANDIDATES)))
    }

    /// As `find`, in a running server.
    pub(crate) fn find_on(&self, client: &AdminClient) -> anyhow::Result<Uuid> {
        self.find_by(|query| request_page(client, &PageRequest::first(query, MAX_CANDIDATES)))
    }

    fn find_by(&self, search: impl FnOnce(&str) -> anyhow::Result<Page>) -> anyhow::Result<Uuid> {
        let part = match self {
            Self::Complete(id) => return Ok(*id),
            Self::Part(part) => part,
        };
        let found = search(&format!("id:{part}"))?;
        let summaries: Vec<Summary> =
            found.transactions.into_iter().map(|hit| hit.summary).collect();
        match summaries.as_slice() {
            [only] if found.next.is_none() => Ok(Uuid::from_u128(only.id.0)),
            [] => bail!("no transaction has an id that begins with {part}"),
            several => {
                print_candidates(several);
                if found.next.is_some() {
                    output::note("(and more)");
                }
                bail!("several transactions have an id that begins with {part}: use more digits")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_complete_or_a_part() {
        let id = "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55";
        assert_eq!(id.parse(), Ok(IdPrefix::Complete(id.parse().unwrap())));
        assert_eq!("019A9e3c-4c".parse(), Ok(IdPrefix::Part("019a9e3c-4c".to_owned())));
        assert_eq!("019a9e3c4c5…".parse(), Ok(IdPrefix::Part("019a9e3c4c5".to_owned())));
        for wrong in ["", "019", "0-1-9", "019x", "status:404", &format!("{id}0")] {
            assert!(wrong.parse::<IdPrefix>().is_err(), "{wrong}");
        }
    }
}
