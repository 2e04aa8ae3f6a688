//! Archives in object storage, as a source of transactions.

use crate::{data_folder, output};
use anyhow::{Context, anyhow};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_archive::{Archive, BucketSettings, Fetched};
use weir_model::bucket_url::BucketUrl;
use weir_store::gaps::Gaps;
use weir_tracker::{Index, Tracker};

/// Opens the archive at a URL; `endpoint` is its server, `cache` the folder for fetched files.
///
/// # Errors
/// There is no archive, or it cannot be read.
pub(crate) fn open(
    url: &Path,
    (endpoint, cache): (Option<&str>, Option<&Path>),
) -> anyhow::Result<Arc<Tracker>> {
    let text = url.to_str().context("not UTF-8")?;
    let location = BucketUrl::parse(text).map_err(|error| anyhow!("{text}: {error}"))?;
    let settings = BucketSettings {
        location,
        endpoint: endpoint.map(str::to_owned),
        region: None,
        credentials: None,
        path_style: true,
        roots: roots()?,
        plain: std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true"),
    };
    let cache = cache.map_or_else(cache_folder, |cache| Ok(cache.to_owned()))?;
    let archive = Archive::open(&settings, &cache, report)?;
    let gaps = archive.gap_records()?;
    if gaps > 0 {
        output::note(&format!("the archive lacks {gaps} transactions that could not be uploaded"));
    }
    let (journal, recovery) = data_folder::journal(archive.folder())?;
    let journal = Arc::new(journal);
    let folder = archive.folder().to_owned();
    let index = Index::remote(&folder, Arc::clone(&journal), archive);
    Ok(Tracker::new(journal, Some(index), recovery, None, Gaps::new(&folder)))
}

/// The certificates in the file that `AWS_CA_BUNDLE` names; none without it.
fn roots() -> anyhow::Result<Vec<Vec<u8>>> {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    let Some(path) = std::env::var_os("AWS_CA_BUNDLE") else { return Ok(Vec::new()) };
    let path = PathBuf::from(path);
    let at = || format!("AWS_CA_BUNDLE: {}", path.display());
    let bytes = std::fs::read(&path).with_context(at)?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    Ok(found.with_context(at)?.iter().map(|root| root.to_vec()).collect())
}

/// `weir` in the cache folder of the user (XDG).
fn cache_folder() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|cache| cache.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).context("there is no cache folder: use --cache DIR")?;
    Ok(cache.join("weir"))
}

/// Tells a person what was downloaded.
fn report(Fetched { objects, bytes, cached }: Fetched) {
    if std::io::stderr().is_terminal() {
        let mib = bytes as f64 / f64::from(1 << 20);
        output::note(&format!(
            "fetched {objects} objects ({mib:.1} MiB); {cached} were in the cache"
        ));
    }
}
