//! Searches in an archive: fetches manifests, parts and segments when a query needs them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use weir_journal::{Address, Journal, lane_folder, sealed_path};
use weir_tracker::{PART_FILES, Remote, RemotePart};

use crate::bucket::{Bucket, BucketSettings};
use crate::cache::Cache;
use crate::error::ArchiveError;
use crate::layout::{FileEntry, Gap, Manifest, NodeInfo, PartEntry, VERSION, time_text, times_of};

/// Requests in flight.
const MAX_IN_FLIGHT: usize = 8;
/// Most lanes of all nodes: as many as a journal has.
const MAX_LANES: u16 = 1024;

/// What was fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Objects that were downloaded.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that the cache had.
    pub cached: u64,
}

/// The folder of a node in the bucket.
#[derive(Debug)]
struct Node {
    bucket: Bucket,
    /// Its first lane in the journal of this archive.
    first_lane: u16,
    lanes: u16,
}

/// The files of a segment.
#[derive(Clone, Debug)]
struct Segment {
    node: usize,
    files: Vec<FileEntry>,
}

#[derive(Debug, Default)]
struct State {
    /// Names of known manifests by node.
    manifests: HashSet<(usize, String)>,
    /// Files of parts, by their path in the session.
    parts: HashMap<PathBuf, (usize, FileEntry)>,
    /// By lane and number in the journal of this archive.
    segments: HashMap<(u16, u32), Segment>,
    /// Segments in the journal, and whether they have headers and bodies.
    added: HashMap<(u16, u32), bool>,
    fetched: Fetched,
}

/// An archive, opened for searches. The files of the session are removed when it is dropped.
#[derive(Debug)]
pub struct Archive {
    runtime: Runtime,
    nodes: Vec<Node>,
    cache: Cache,
    session: TempDir,
    state: Mutex<State>,
    /// Called at the end.
    report: fn(Fetched),
}

impl Drop for Archive {
    fn drop(&mut self) {
        (self.report)(self.fetched());
    }
}

impl Archive {
    /// Opens the archive of all nodes below the prefix of the location, or of the one node whose folder
    /// it is. `cache` is the folder for fetched files; `report` gets what was fetched at the end.
    ///
    /// # Errors
    /// There is no archive, or it cannot be read.
    pub fn open(
        settings: &BucketSettings,
        cache: &Path,
        report: fn(Fetched),
    ) -> Result<Arc<Self>, ArchiveError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ArchiveError::io(Path::new("threads")))?;
        let bucket = Bucket::open(settings)?;
        let nodes = runtime.block_on(nodes(&bucket))?;
        let cache = Cache::open(cache)?;
        let session = cache.session()?;
        for lane in 0..nodes.iter().map(|node| node.lanes).sum() {
            let folder = lane_folder(session.path(), lane);
            fs::create_dir_all(&folder).map_err(ArchiveError::io(&folder))?;
        }
        Ok(Arc::new(Self { runtime, nodes, cache, session, state: Mutex::default(), report }))
    }

    /// The data folder into which files are fetched; its journal has the lanes of all nodes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.session.path()
    }

    /// What was fetched so far.
    #[must_use]
    pub fn fetched(&self) -> Fetched {
        self.state.lock().fetched
    }

    /// Number of transactions that nodes could not upload.
    ///
    /// # Errors
    /// Gaps cannot be read.
    pub fn gap_records(&self) -> Result<u64, ArchiveError> {
        let count = async {
            let mut records = 0;
            for node in &self.nodes {
                for name in node.bucket.list("gaps", "").await? {
                    let name = format!("gaps/{name}");
                    let Some(bytes) = node.bucket.read(&name).await? else { continue };
                    records += node.bucket.decode::<Gap>(&name, &bytes)?.records;
                }
            }
            Ok(records)
        };
        self.runtime.block_on(count)
    }

    /// The manifest of a segment, from the cache or from the bucket; `None` if it was deleted meanwhile.
    async fn manifest(
        &self,
        node: usize,
        name: &str,
    ) -> Result<Option<(usize, Manifest)>, ArchiveError> {
        let bucket = &self.nodes[node].bucket;
        let key = format!("{}-{name}", bucket.name());
        let name = format!("manifests/{name}");
        let bytes = match self.cache.read(&key) {
            Some(bytes) => {
                self.state.lock().fetched.cached += 1;
                bytes
            }
            None => {
                let Some(bytes) = bucket.read(&name).await? else { return Ok(None) };
                let mut file = self.cache.new_file()?;
                let written = io::Write::write_all(&mut file, &bytes);
                written.map_err(ArchiveError::io(file.path()))?;
                self.cache.add(file, &key)?;
                self.count(bytes.len() as u64);
                bytes.to_vec()
            }
        };
        let manifest: Manifest = bucket.decode(&name, &bytes)?;
        let is_known = manifest.version == VERSION && manifest.lane < self.nodes[node].lanes;
        if !is_known {
            let version = manifest.version;
            return Err(bucket.damaged(&name, format!("version {version} of a manifest")));
        }
        Ok(Some((node, manifest)))
    }

    fn count(&self, bytes: u64) {
        let fetched = &mut self.state.lock().fetched;
        fetched.objects += 1;
        fetched.bytes += bytes;
    }

    /// Fetches manifests of segments with transactions in a range of times.
    async fn fetch_manifests(
        &self,
        (low, high): (u64, u64),
    ) -> Result<Vec<(usize, Manifest)>, ArchiveError> {
        let mut names = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for name in node.bucket.list("manifests", &time_text(low)).await? {
                let overlaps = times_of(&name).is_some_and(|(first, _)| first <= high);
                let key = (number, name);
                if overlaps && !self.state.lock().manifests.contains(&key) {
                    names.push(key);
                }
            }
        }
        let manifests = stream::iter(&names).map(|(node, name)| self.manifest(*node, name));
        let manifests = manifests.buffered(MAX_IN_FLIGHT);
        let found: Vec<_> = manifests.try_collect().await?;
        self.state.lock().manifests.extend(names);
        Ok(found.into_iter().flatten().collect())
    }

    /// Puts a file of a node to its place in the session.
    async fn fetch(
        &self,
        node: usize,
        file: &FileEntry,
        target: &Path,
    ) -> Result<(), ArchiveError> {
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(ArchiveError::io(folder))?;
        }
        if self.cache.link(&file.sha256, target)? {
            self.state.lock().fetched.cached += 1;
            return Ok(());
        }
        let mut new = self.cache.new_file()?;
        self.nodes[node].bucket.fetch(file, new.as_file_mut()).await?;
        // Before it may be evicted again.
        fs::hard_link(new.path(), target).map_err(ArchiveError::io(target))?;
        self.cache.add(new, &file.sha256)?;
        self.count(file.bytes);
        Ok(())
    }

    /// Registers the objects of a manifest; returns its parts.
    fn register(&self, node: usize, manifest: Manifest) -> Vec<RemotePart> {
        let lane = self.nodes[node].first_lane + manifest.lane;
        let mut state = self.state.lock();
        let segment = Segment { node, files: manifest.files };
        // The same segment once more: of a data folder that was copied and then written on.
        if state.segments.contains_key(&(lane, manifest.segment)) {
            return Vec::new();
        }
        state.segments.insert((lane, manifest.segment), segment);
        let parts = manifest.parts.into_iter().enumerate();
        let parts = parts.map(|(number, PartEntry { head, columns, terms })| {
            let name = format!("{lane:04}-{:010}-{number}", manifest.segment);
            let folder = self.session.path().join("index").join(name);
            for (file, name) in [columns, terms].into_iter().zip(PART_FILES) {
                state.parts.insert(folder.join(name), (node, file));
            }
            RemotePart { folder, head, lane }
        });
        parts.collect()
    }

    /// Fetches the files of segments that are not there.
    async fn fetch_segments(
        &self,
        segments: &[((u16, u32), Segment)],
        payload: bool,
    ) -> Result<(), ArchiveError> {
        let is_needed = |file: &&FileEntry| payload || file.extension() == "meta";
        let files = segments.iter().flat_map(|(at, segment)| {
            let files = segment.files.iter().filter(is_needed);
            files.map(move |file| (at, segment.node, file))
        });
        let fetched = stream::iter(files).map(|((lane, number), node, file)| {
            let target = sealed_path(self.session.path(), *lane, *number, file.extension());
            async move {
                match target.exists() {
                    true => Ok(()),
                    false => self.fetch(node, file, &target).await,
                }
            }
        });
        fetched.buffer_unordered(MAX_IN_FLIGHT).try_collect().await
    }
}

impl Remote for Archive {
    fn parts(&self, times: (u64, u64)) -> io::Result<Vec<RemotePart>> {
        let found = self.runtime.block_on(self.fetch_manifests(times))?;
        Ok(found.into_iter().flat_map(|(node, manifest)| self.register(node, manifest)).collect())
    }

    fn file(&self, path: &Path) -> io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        let known = self.state.lock().parts.get(path).cloned();
        let unknown = || io::Error::other(format!("{}: unknown file", path.display()));
        let (node, file) = known.ok_or_else(unknown)?;
        Ok(self.runtime.block_on(self.fetch(node, &file, path))?)
    }

    fn segments(&self, journal: &Journal, addresses: &[Address], payload: bool) -> io::Result<()> {
        let at = addresses.iter().map(|address| (address.lane, address.position.segment()));
        let mut at: Vec<_> = at.collect();
        at.dedup();
        let needed: Vec<_> = {
            let state = self.state.lock();
            at.retain(|at| state.added.get(at).is_none_or(|complete| payload && !complete));
            at.iter().filter_map(|at| Some((*at, state.segments.get(at)?.clone()))).collect()
        };
        self.runtime.block_on(self.fetch_segments(&needed, payload))?;
        for ((lane, number), _) in needed {
            journal.add_sealed(lane, number)?;
            self.state.lock().added.insert((lane, number), payload);
        }
        Ok(())
    }
}

/// The nodes of an archive.
async fn nodes(bucket: &Bucket) -> Result<Vec<Node>, ArchiveError> {
    let mut nodes = Vec::new();
    let mut first_lane = 0_u16;
    let mut folders = vec![bucket.clone()];
    if read_info(bucket).await?.is_none() {
        folders = bucket.folders().await?.iter().map(|name| bucket.folder(name)).collect();
    }
    for bucket in folders {
        let Some(NodeInfo { lanes, .. }) = read_info(&bucket).await? else { continue };
        if lanes > MAX_LANES.saturating_sub(first_lane) {
            let reason = format!("the nodes have more than {MAX_LANES} workers: name one node");
            return Err(bucket.damaged("node.json", reason));
        }
        nodes.push(Node { bucket, first_lane, lanes });
        first_lane += lanes;
    }
    match nodes.is_empty() {
        true => Err(bucket.damaged("", "no node has uploaded a segment there")),
        false => Ok(nodes),
    }
}

async fn read_info(bucket: &Bucket) -> Result<Option<NodeInfo>, ArchiveError> {
    let Some(bytes) = bucket.read("node.json").await? else { return Ok(None) };
    let info: NodeInfo = bucket.decode("node.json", &bytes)?;
    match info.version {
        VERSION => Ok(Some(info)),
        version => Err(bucket.damaged("node.json", format!("version {version} of the layout"))),
    }
}
