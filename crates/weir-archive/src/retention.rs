//! Retention: deletes segments and gaps whose last transaction is too old. Only the node itself deletes
//! below its folder.

use std::time::Duration;

use crate::bucket::Bucket;
use crate::error::ArchiveError;
use crate::layout::{Manifest, time_text};

/// Most segments of one pass.
const MAX_PASS_SEGMENTS: usize = 100;

/// Deletes segments that ended before `now - keep`, both in time since 1970, oldest first. Returns their
/// number, and whether there may be more.
pub(crate) async fn enforce(
    bucket: &Bucket,
    keep: Duration,
    now: Duration,
) -> Result<(u64, bool), ArchiveError> {
    let until = now.saturating_sub(keep).as_micros();
    let until = time_text(u64::try_from(until).unwrap_or(u64::MAX));
    let is_due = |name: &String| name.as_str() < until.as_str();
    let mut deleted = 0;
    let manifests = bucket.list("manifests", "").await?;
    for name in manifests.iter().filter(|name| is_due(name)).take(MAX_PASS_SEGMENTS) {
        let name = format!("manifests/{name}");
        // Gone meanwhile: an operator or a lifecycle rule deletes, too.
        let Some(bytes) = bucket.read(&name).await? else { continue };
        let manifest: Manifest = bucket.decode(&name, &bytes)?;
        for file in manifest.all_files() {
            bucket.delete(&format!("files/{}", file.name)).await?;
        }
        // Last: after a failure it still names what is left.
        bucket.delete(&name).await?;
        deleted += 1;
    }
    for name in bucket.list("gaps", "").await?.iter().filter(|name| is_due(name)) {
        bucket.delete(&format!("gaps/{name}")).await?;
    }
    Ok((deleted, deleted == MAX_PASS_SEGMENTS as u64))
}
