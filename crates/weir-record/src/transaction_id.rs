//! The id of a transaction.

use weir_telemetry::hex;

/// A transaction id (UUIDv7), in its text form and as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionId {
    text: [u8; uuid::fmt::Hyphenated::LENGTH],
    bytes: [u8; 16],
}

impl TransactionId {
    /// The id of no transaction.
    pub const NIL: Self = Self { text: [b'0'; 36], bytes: [0; 16] };

    /// A new id with this time, in milliseconds since 1970.
    pub fn new(unix_ms: u64) -> Self {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&fastrand::u64(..).to_ne_bytes());
        random[8..].copy_from_slice(&fastrand::u16(..).to_ne_bytes());
        Self::of(uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid())
    }

    /// A new id for requests that are not transactions of a client.
    pub fn fresh() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self::new(since.map_or(0, |since| since.as_millis() as u64))
    }

    /// The id with the value of a UUID.
    pub fn of(id: uuid::Uuid) -> Self {
        let bytes = id.into_bytes();
        let (high, low) = id.as_u64_pair();
        let (high, low) = (hex::digits(high), hex::digits(low));
        let mut text = [b'-'; uuid::fmt::Hyphenated::LENGTH];
        text[..8].copy_from_slice(&high[..8]);
        text[9..13].copy_from_slice(&high[8..12]);
        text[14..18].copy_from_slice(&high[12..]);
        text[19..23].copy_from_slice(&low[..4]);
        text[24..].copy_from_slice(&low[4..]);
        Self { text, bytes }
    }

    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The 16 bytes of the id.
    pub fn bytes(&self) -> [u8; 16] {
        self.bytes
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::TransactionId;

    #[test]
    fn an_id_is_a_version_7_uuid_of_its_moment_in_canonical_form() {
        let id = TransactionId::new(1_700_000_000_123);
        let uuid: uuid::Uuid = id.as_str().parse().unwrap();
        assert_eq!(uuid.to_string(), id.as_str());
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.get_timestamp().unwrap().to_unix(), (1_700_000_000, 123_000_000));
    }
}
