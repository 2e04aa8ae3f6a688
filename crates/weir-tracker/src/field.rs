//! The metadata columns.

/// Bytes of a name that are stored.
const MAX_NAME_BYTES: usize = 256;

/// A column of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Name {
    /// The API.
    Api,
    /// The operation or route.
    Operation,
    /// The transaction type.
    Type,
    /// The method.
    Method,
    /// The consumer.
    Consumer,
    /// The subject of the verified principal.
    Principal,
    /// The address of the client.
    Sender,
    /// The upstream.
    Receiver,
    /// The problem code.
    Problem,
    /// The consumer's plan.
    Plan,
    /// The auth method, limit or rule of the problem.
    Detail,
    /// The upstream's target whose response the client got, or of the last attempt.
    #[strum(serialize = "upstream_target")]
    UpstreamTarget,
    /// Digest of the configuration that handled it.
    Configuration,
}

impl Name {
    /// All of them, in the order of their columns.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The field name in a query.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// Microseconds since 1970.
    Time,
    /// Microseconds.
    Elapsed,
    Status,
    State,
}

/// The part of a name that is stored.
pub(crate) fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}
