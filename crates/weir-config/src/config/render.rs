//! Rendering JSON values in the formats a reply offers.

use super::Format;

impl Format {
    /// Content-Type value.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Json { .. } => "application/json",
            Self::Xml { .. } => "application/xml",
        }
    }

    /// Renders a JSON text.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn render(&self, json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
        Ok(json.to_vec())
    }
}
