//! A bucket: objects below a prefix, verified on their way.

use data_encoding::HEXLOWER;
use std::fs::File;
use std::io::Read;
use std::path::Path as FilePath;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    Certificate, ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutPayload, RetryConfig, WriteMultipart,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_model::bucket_url::BucketUrl;

use crate::error::ArchiveError;
use crate::layout::FileEntry;

/// Bytes of a part of a multipart upload; shorter files are uploaded by one request.
const PART_BYTES: usize = 8 << 20;
/// Parts of an upload in flight.
const MAX_PARTS_IN_FLIGHT: usize = 2;
/// Longest manifest, and other object that is read into memory.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Longest time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Repetitions of a request, and the time after which there are none.
const MAX_RETRIES: usize = 2;
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest reason in an error.
const MAX_REASON: usize = 300;

/// An access key.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Its id.
    pub access_key: String,
    /// The secret.
    pub secret_key: String,
}

impl std::fmt::Debug for Credentials {
    /// Does not print the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// How a bucket is reached.
#[derive(Clone, Debug)]
pub struct BucketSettings {
    /// The bucket and the prefix.
    pub location: BucketUrl,
    /// URL of the server; `None`: that of the environment, or of AWS.
    pub endpoint: Option<String>,
    /// Region; `None`: that of the environment, or `us-east-1`.
    pub region: Option<String>,
    /// `None`: those of the environment (`AWS_*`), of a web identity, or of the instance.
    pub credentials: Option<Credentials>,
    /// The bucket is in the path of URLs; otherwise in the host name.
    pub path_style: bool,
    /// Root certificates in DER in place of those of the system; may be empty.
    pub roots: Vec<Vec<u8>>,
    /// `http` is permitted for every endpoint.
    pub plain: bool,
}

/// A bucket.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    store: std::sync::Arc<AmazonS3>,
    location: BucketUrl,
}

impl Bucket {
    pub(crate) fn open(settings: &BucketSettings) -> Result<Self, ArchiveError> {
        let BucketSettings { location, endpoint, region, credentials, .. } = settings;
        let mut builder = match credentials {
            Some(Credentials { access_key, secret_key }) => AmazonS3Builder::new()
                .with_access_key_id(access_key)
                .with_secret_access_key(secret_key),
            None => AmazonS3Builder::from_env(),
        };
        let env = builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint);
        let env = env.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
        let endpoint = endpoint.clone().or(env);
        let mut options = ClientOptions::new()
            .with_timeout(REQUEST_TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT);
        for root in &settings.roots {
            let certificate = Certificate::from_der(root);
            options = options.with_root_certificate(
                certificate.map_err(|error| ArchiveError::Settings(error.to_string()))?,
            );
        }
        if !settings.roots.is_empty() {
            options = options.with_no_system_certificates(true);
        }
        if let Some(endpoint) = endpoint {
            if endpoint.starts_with("http://") {
                if !(settings.plain || is_local(&endpoint)) {
                    let message = format!("{endpoint}: http is allowed for this machine only");
                    return Err(ArchiveError::Settings(message));
                }
                options = options.with_allow_http(true);
            }
            let endpoint = endpoint.trim_end_matches('/').to_owned();
            builder = builder.with_endpoint(match settings.path_style {
                true => endpoint,
                false => endpoint.replacen("://", &format!("://{}.", location.bucket), 1),
            });
        }
        if let Some(region) = region {
            builder = builder.with_region(region);
        }
        let retry = RetryConfig {
            max_retries: MAX_RETRIES,
            retry_timeout: RETRY_TIMEOUT,
            ..RetryConfig::default()
        };
        let store = builder
            .with_bucket_name(&location.bucket)
            .with_virtual_hosted_style_request(!settings.path_style)
            .with_client_options(options)
            .with_retry(retry)
            .with_checksum_algorithm(Checksum::SHA256)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .build()
            .map_err(|error| ArchiveError::Settings(reason(&error)))?;
        Ok(Self { store: std::sync::Arc::new(store), location: location.clone() })
    }

    /// The same bucket with a longer prefix.
    pub(crate) fn folder(&self, name: &str) -> Self {
        let prefix = match self.location.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        };
        let location = BucketUrl { bucket: self.location.bucket.clone(), prefix };
        Self { store: std::sync::Arc::clone(&self.store), location }
    }

    /// Last folder of the prefix.
    pub(crate) fn name(&self) -> &str {
        self.location.prefix.rsplit('/').next().unwrap_or_default()
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.location.prefix))
    }

    /// URL of an object, for people.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.location)
    }

    fn failed(&self, name: &str) -> impl Fn(Error) -> ArchiveError {
        let object = self.url(name);
        move |error| ArchiveError::Storage { object: object.clone(), reason: reason(&error) }
    }

    /// Uploads a file, unless an object of its length exists: the name stands for the content.
    pub(crate) async fn put_file(
        &self,
        file: &FileEntry,
        path: &FilePath,
    ) -> Result<(), ArchiveError> {
        let name = format!("files/{}", file.name);
        match self.store.head(&self.path(&name)).await {
            Ok(found) if found.size == file.bytes => return Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(self.failed(&name)(error)),
        }
        let mut source = File::open(path).map_err(ArchiveError::io(path))?;
        if file.bytes <= PART_BYTES as u64 {
            let mut bytes = Vec::with_capacity(file.bytes as usize);
            source.read_to_end(&mut bytes).map_err(ArchiveError::io(path))?;
            let put = self.store.put(&self.path(&name), PutPayload::from(bytes)).await;
            return put.map(drop).map_err(self.failed(&name));
        }
        let upload = self.store.put_multipart(&self.path(&name)).await;
        let upload = upload.map_err(self.failed(&name))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let sent = async {
            loop {
                upload.wait_for_capacity(MAX_PARTS_IN_FLIGHT).await.map_err(self.failed(&name))?;
                let mut chunk = Vec::with_capacity(PART_BYTES);
                let part = source.by_ref().take(PART_BYTES as u64).read_to_end(&mut chunk);
                if part.map_err(ArchiveError::io(path))? == 0 {
                    return Ok(());
                }
                upload.put(Bytes::from(chunk));
            }
        };
        match sent.await {
            Ok(()) => upload.finish().await.map(drop).map_err(self.failed(&name)),
            Err(error) => {
                // Otherwise the parts stay, and cost.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }

    /// Writes an object of JSON.
    pub(crate) async fn put_json(
        &self,
        name: &str,
        content: &impl Serialize,
    ) -> Result<(), ArchiveError> {
        let put = self.store.put(&self.path(name), json(content).into()).await;
        put.map(drop).map_err(self.failed(name))
    }

    /// Writes an object of JSON, unless it exists; whether it did not.
    pub(crate) async fn create_json(
        &self,
        name: &str,
        content: &impl Serialize,
    ) -> Result<bool, ArchiveError> {
        let options = PutMode::Create.into();
        match self.store.put_opts(&self.path(name), json(content).into(), options).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.failed(name)(error)),
        }
    }

    /// The bytes of an object; `None` if there is none.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Bytes>, ArchiveError> {
        let found = match self.store.get(&self.path(name)).await {
            Ok(found) => found,
            Err(Error::NotFound { source, .. }) if !is_bucket_missing(&*source) => return Ok(None),
            Err(error) => return Err(self.failed(name)(error)),
        };
        if found.meta.size > MAX_JSON_BYTES {
            return Err(self.damaged(name, "it is too long"));
        }
        found.bytes().await.map(Some).map_err(self.failed(name))
    }

    pub(crate) fn damaged(&self, name: &str, reason: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged { object: self.url(name), reason: reason.into() }
    }

    /// Decodes JSON of an object.
    pub(crate) fn decode<T: DeserializeOwned>(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<T, ArchiveError> {
        serde_json::from_slice(bytes).map_err(|error| self.damaged(name, error.to_string()))
    }

    /// Fetches a file into `target`, and compares it with what its manifest says.
    pub(crate) async fn fetch(
        &self,
        file: &FileEntry,
        target: &mut File,
    ) -> Result<(), ArchiveError> {
        use std::io::Write as _;
        let name = format!("files/{}", file.name);
        let found = self.store.get(&self.path(&name)).await.map_err(self.failed(&name))?;
        let (mut stream, mut digest, mut length) = (found.into_stream(), Context::new(&SHA256), 0);
        while let Some(chunk) = stream.try_next().await.map_err(self.failed(&name))? {
            length += chunk.len() as u64;
            if length > file.bytes {
                break;
            }
            digest.update(&chunk);
            target.write_all(&chunk).map_err(ArchiveError::io(FilePath::new("the cache")))?;
        }
        if length != file.bytes {
            let reason = match length < file.bytes {
                true => format!("truncated: it has {length} of {} bytes", file.bytes),
                false => format!("it has more than {} bytes", file.bytes),
            };
            return Err(self.damaged(&name, reason));
        }
        if HEXLOWER.encode(digest.finish().as_ref()) != file.sha256 {
            return Err(self.damaged(&name, "corrupt: its SHA-256 is not that of its manifest"));
        }
        Ok(())
    }

    /// Names of the objects in a folder, in their order, from `from` on.
    pub(crate) async fn list(&self, folder: &str, from: &str) -> Result<Vec<String>, ArchiveError> {
        let prefix = self.path(folder);
        let found =
            self.store.list_with_offset(Some(&prefix), &self.path(&format!("{folder}/{from}")));
        let found: Vec<ObjectMeta> = found.try_collect().await.map_err(self.failed(folder))?;
        let names = found.iter().filter_map(|found| found.location.filename());
        Ok(names.map(str::to_owned).collect())
    }

    /// Names of the folders below the prefix.
    pub(crate) async fn folders(&self) -> Result<Vec<String>, ArchiveError> {
        let prefix = Path::from(self.location.prefix.as_str());
        let found = self.store.list_with_delimiter(Some(&prefix)).await;
        let found = found.map_err(self.failed(""))?.common_prefixes;
        Ok(found.iter().filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    /// Deletes an object; one that does not exist is deleted already.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), ArchiveError> {
        match self.store.delete(&self.path(name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(name)(error)),
        }
    }
}

fn json(content: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(content).unwrap_or_default()
}

/// Length and SHA-256 of a file.
pub(crate) fn checksum(path: &FilePath) -> Result<(u64, String), ArchiveError> {
    let mut file = File::open(path).map_err(ArchiveError::io(path))?;
    let (mut digest, mut length) = (Context::new(&SHA256), 0);
    let mut chunk = vec![0; 256 << 10];
    loop {
        match file.read(&mut chunk).map_err(ArchiveError::io(path))? {
            0 => return Ok((length, HEXLOWER.encode(digest.finish().as_ref()))),
            read => {
                digest.update(&chunk[..read]);
                length += read as u64;
            }
        }
    }
}

/// Whether a URL is one of this machine.
fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn is_bucket_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    error.to_string().contains("NoSuchBucket")
}

/// Code and message of a response of S3, or the begin of any other error. Responses also echo parts of
/// the request, which are left out.
fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        _ => text.chars().filter(|letter| !letter.is_control()).take(MAX_REASON).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_urls_are_those_of_loopback_addresses() {
        for url in ["http://127.0.0.1:9000", "http://localhost", "http://[::1]:7070/x"] {
            assert!(is_local(url), "{url}");
        }
        for url in ["http://10.0.0.1", "http://s3.example.com:80", "http://127.0.0.1.example.com"] {
            assert!(!is_local(url), "{url}");
        }
    }
}
