//! The archive: segments of the journal in object storage.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::archive::ARCHIVE_TLS;
use crate::config::{Archive, JournalSettings, Tracker};
use url::Url;
use weir_document::finding::{Fault, codes};
use weir_model::bucket_url::BucketUrl;

/// What the URL of an archive looks like.
const EXAMPLE: &str = "write `s3://BUCKET/PREFIX`";

impl Resolver<'_> {
    /// `journal.archive`.
    pub(super) fn archive(&mut self, journal: &Fields<'_>, recorded: &Tracker) -> Option<Archive> {
        let fields = journal.object("archive", Archive::SHAPE)?;
        if !recorded.enabled {
            let message = "without `tracker.enabled` there are no transactions for the archive";
            self.report.error(codes::CONFLICT, fields.node().at, message);
        }
        let url = fields.get("url")?;
        let location = match BucketUrl::parse(url.text()?.trim_end()) {
            Ok(location) => location,
            Err(message) => {
                self.fault(url, Fault::value(message).help(EXAMPLE));
                return None;
            }
        };
        let endpoint = match fields.get("endpoint") {
            Some(node) => {
                let plain = fields.bool("plain") == Some(true);
                match endpoint(node.text()?.trim_end(), plain) {
                    Ok(endpoint) => Some(endpoint),
                    Err(fault) => {
                        self.fault(node, fault);
                        return None;
                    }
                }
            }
            None => None,
        };
        let credentials = match (fields.get("access_key"), fields.get("secret_key")) {
            (None, None) => None,
            (Some(_), Some(_)) => {
                let (key, secret) = (fields.line("access_key")?, fields.line("secret_key")?);
                Some((key.to_owned(), secret.to_owned()))
            }
            (key, secret) => {
                let node = key.or(secret)?;
                let message = "`access_key` and `secret_key` need each other";
                self.report
                    .error(codes::MISSING_KEY, node.at, message)
                    .help("without both, the credentials are those of the environment");
                return None;
            }
        };
        let ca = match fields.object("tls", &ARCHIVE_TLS) {
            Some(tls) => match tls.get("ca") {
                Some(node) => Some(self.authorities(node)?),
                None => None,
            },
            None => None,
        };
        let keep = match fields.get("keep") {
            Some(_) => Some(fields.duration("keep")?),
            None => None,
        };
        Some(Archive::read(&fields, location, endpoint, credentials, keep, ca))
    }

    /// `journal`.
    pub(super) fn journal(&mut self, root: &Fields<'_>, recorded: &Tracker) -> JournalSettings {
        let fields = root.object_or_empty("journal", JournalSettings::SHAPE);
        let archive = self.archive(&fields, recorded);
        JournalSettings::read(&fields, archive)
    }
}

/// Checks `http[s]://HOST:PORT`; http only for this machine, unless `plain`.
fn endpoint(text: &str, plain: bool) -> Result<String, Fault> {
    let fault = |message: &str| {
        Fault::value(message.to_owned()).help("write `https://s3.example.com`, without a path")
    };
    let url = Url::parse(text).map_err(|error| fault(&format!("not a URL: {error}")))?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !matches!(url.scheme(), "http" | "https") || !is_bare || has_user {
        return Err(fault("the URL has a scheme, a host and a port only"));
    }
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| fault("no host"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if url.scheme() == "http" && !plain && !is_local(host) {
        let message = "transactions contain personal data: `http` is allowed for this machine only";
        let help = "use `https://…`, or `plain: true` in a protected network";
        return Err(Fault::value(message.to_owned()).help(help));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_leave_the_machine_encrypted() {
        for (text, plain) in [
            ("https://s3.example.com", false),
            ("http://127.0.0.1:9000", false),
            ("http://[::1]:9000/", false),
            ("http://minio:9000", true),
        ] {
            assert!(endpoint(text, plain).is_ok(), "{text}");
        }
        for text in ["http://minio:9000", "https://a/b", "https://u:p@a", "s3://a", "a"] {
            assert!(endpoint(text, false).is_err(), "{text}");
        }
    }
}
