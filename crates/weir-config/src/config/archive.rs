//! The archive: segments of the journal in object storage.

use super::tls::Authorities;
use std::time::Duration;
use weir_document::settings;
use weir_document::shape::{Kind, format};
use weir_model::bucket_url::BucketUrl;

settings! {
    /// Upload of the journal to S3-compatible object storage, where `weir search --data s3://…` finds
    /// transactions for years. Storage that is unavailable or slow never holds up recording.
    #[derive(Clone)]
    pub struct Archive is "the archive" {
        /// `s3://BUCKET/PREFIX`. Each node has a folder of its own there, so that many nodes may share
        /// a prefix.
        url = by_hand(Kind::Text).required(),
        /// URL of the server: `https://s3.example.com`.
        endpoint = by_hand(Kind::Text).absent("`AWS_ENDPOINT_URL`, or that of AWS"),
        /// Region of the bucket.
        pub region: Option<String> = text(Kind::Text).absent("`AWS_REGION`, or `us-east-1`"),
        /// Id of the access key.
        access_key = by_hand(Kind::Text)
            .absent("credentials of the environment (`AWS_*`), of a web identity, or of the instance"),
        /// Secret of the access key.
        secret_key = by_hand(Kind::Secret),
        /// The bucket is in the path of URLs; otherwise it is a part of the host name.
        pub path_style: bool = boolean().default("true"),
        /// Retention in the bucket: a segment is deleted once all of it is older.
        keep = by_hand(Kind::Format(format::POSITIVE_DURATION))
            .absent("nothing is deleted"),
        /// Share of `journal.disk` that transactions may take which are not uploaded yet. Beyond it the
        /// journal may drop the oldest of them; the gap is counted.
        // In hundredths of a percent.
        pub max_backlog: u32 = percent().default("50%"),
        /// TLS to the server.
        tls = by_hand(Kind::Object(&ARCHIVE_TLS)),
        /// Allow unencrypted requests (`http`) to other machines.
        pub plain: bool = boolean().default("false"),
    } given {
        /// Where it is.
        pub location: BucketUrl,
        /// URL of the server.
        pub endpoint: Option<String>,
        /// Id and secret of the access key.
        pub credentials: Option<(String, String)>,
        /// Retention in the bucket.
        pub keep: Option<Duration>,
        /// Root certificates; `None`: those of the system.
        pub ca: Option<Authorities>,
    },
    short: Some("url"),
    misspellings: &[
        ("bucket", "write `url: \"s3://BUCKET/PREFIX\"`"),
        ("prefix", "write `url: \"s3://BUCKET/PREFIX\"`"),
        ("access_key_id", "write `access_key`"),
        ("secret_access_key", "write `secret_key: \"file:PATH\"`"),
        ("insecure", "write `plain`"),
    ],
}

settings! {
    /// TLS to the object storage.
    pub(crate) static ARCHIVE_TLS is "the TLS of the archive" {
        /// Trusted root certificates in PEM: `file:ca.crt`.
        ca = by_hand(Kind::Text).absent("those of the system"),
    }
}

impl std::fmt::Debug for Archive {
    /// Does not print the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("location", &self.location).finish_non_exhaustive()
    }
}
