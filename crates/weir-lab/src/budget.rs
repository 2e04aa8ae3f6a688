//! Bytes that one extraction may copy out of a text.

/// Bytes of all matches of an extraction.
pub(crate) const MAX_EXTRACTED_BYTES: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Bytes of the value of a variable.
pub(crate) const MAX_VALUE_BYTES: usize = 16 << 20;
/// Bytes of a text with variables.
pub(crate) const MAX_TEXT_BYTES: usize = 64 << 20;

/// Cuts a text off at a limit, between two characters.
pub(crate) fn cut(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
    }
}

/// Whether a text is small enough for a value.
///
/// # Errors
/// It is not.
pub(crate) fn fits_value(bytes: usize) -> Result<(), String> {
    match bytes <= MAX_VALUE_BYTES {
        true => Ok(()),
        false => Err(format!("a text has at most {} MiB", MAX_VALUE_BYTES >> 20)),
    }
}

/// A text with all occurrences of another one replaced.
///
/// # Errors
/// It is too large for a value.
pub(crate) fn replaced(text: &str, from: &str, to: &str) -> Result<String, String> {
    // Only a longer replacement makes a text larger.
    if to.len() > from.len() {
        let more = text.matches(from).count().saturating_mul(to.len() - from.len());
        fits_value(text.len().saturating_add(more))?;
    }
    Ok(text.replace(from, to))
}

/// What an extraction may still copy.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: MAX_EXTRACTED_BYTES }
    }
}

impl Budget {
    /// Accounts for bytes.
    ///
    /// # Errors
    /// They are too many.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| {
            format!("the matches have more than {} MiB", MAX_EXTRACTED_BYTES >> 20)
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_do_not_exceed_the_size_of_a_value() {
        assert_eq!(replaced("abab", "b", "xx").as_deref(), Ok("axxaxx"));
        assert_eq!(replaced("ab", "", "-").as_deref(), Ok("-a-b-"));
        let (text, long) = ("a".repeat(10_000), "x".repeat(10_000));
        assert_eq!(replaced(&text, "a", &long), Err("a text has at most 16 MiB".to_owned()));
        let mut text = "aé".to_owned();
        cut(&mut text, 2);
        assert_eq!(text, "a");
    }
}
