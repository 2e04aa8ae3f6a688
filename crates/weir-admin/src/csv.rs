//! Fields of CSV (RFC 4180).

/// A field, quoted if necessary. One that a spreadsheet would interpret as a formula is prefixed with an
/// apostrophe.
pub(crate) fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}
