//! URLs of folders in object storage.

/// A folder in a bucket: `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUrl {
    /// Name of the bucket.
    pub bucket: String,
    /// Prefix of all objects, without slashes at its ends; may be empty.
    pub prefix: String,
}

impl BucketUrl {
    /// Parses `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// The text is no such URL; the message says why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("s3://").ok_or("not a URL of the form s3://BUCKET/PREFIX")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
        };
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(allowed) {
            let what = "has 3 to 63 lower-case letters, digits, hyphens and dots";
            return Err(format!("the name of a bucket {what}"));
        }
        let prefix = prefix.trim_matches('/');
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        let is_folder = |name: &str| !matches!(name, "" | "." | "..");
        if !prefix.chars().all(allowed) || !(prefix.is_empty() || prefix.split('/').all(is_folder))
        {
            return Err("a prefix has letters, digits and `-_./`".to_owned());
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl std::fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_bucket_and_a_prefix() {
        for (text, bucket, prefix) in [
            ("s3://records", "records", ""),
            ("s3://records/", "records", ""),
            ("s3://a.b-1/weir/prod/", "a.b-1", "weir/prod"),
        ] {
            let found = BucketUrl::parse(text).unwrap();
            assert_eq!((found.bucket.as_str(), found.prefix.as_str()), (bucket, prefix), "{text}");
        }
        for text in [
            "",
            "records",
            "s3://",
            "s3://ab",
            "s3://Records",
            "s3://abc/a//b",
            "s3://abc/../x",
            "s3://abc/a b",
            "https://abc/x",
        ] {
            assert!(BucketUrl::parse(text).is_err(), "{text}");
        }
    }
}
