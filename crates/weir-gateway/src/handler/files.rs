//! The `files` handler: static files of a folder, in their current state.
//!
//! A file is found by [`weir_files`]; the handler selects its form, checks the conditions of the
//! request (`condition`), and sends the requested ranges (`range`).

mod condition;
mod range;

use super::HandlerInput;
use crate::response_body::ResponseBody;
use crate::transform::Source;
use bytes::Bytes;
use condition::{Validators, Verdict};
use range::Requested;
use std::ops::Range;
use std::sync::Arc;
use weir_config::{BodyMap, Compression, ContentCoding, Route};
use weir_files::{
    CODINGS, Chunk, Compressing, FileBody, IoMode, Lookup, ReadError, Resource, Root, Stored,
    decode_path,
};
use weir_http::body::RequestBody;
use weir_http::compress::{self, Decision};
use weir_http::cors::add_vary;
use weir_http::deadline::Wait;
use weir_http::negotiate::Codings;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_net::descriptors::is_exhausted;
use weir_record::client_request::{ClientRequest, StageInput};
use weir_wire::{Known, Method};

/// Larger files are compressed while they are sent, each time.
const COMPRESSED_AT_ONCE: u64 = 1 << 20;

/// Responds with a file.
pub(super) async fn serve<'a>(
    input: &mut HandlerInput<'_>,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let context = &input.context;
    let (route, live) = (context.route, context.live);
    let root = live.route(context.at).files.as_ref().ok_or(Problem::Internal)?;
    body.discard_buffered()?;
    index_paths(input.request.path(), root)
        .try_for_each(|path| context.admit_name(input.request, &path))?;
    let input = &mut input.stage();
    let key = key_of(&input.request, root);
    // The folder of the route itself, requested without a trailing slash.
    let bare = key.is_empty() && !input.request.head.path().ends_with('/');
    let (resource, fallback) = match root.recent(key, input.started) {
        Some(_) if bare => return Ok(redirect(input)),
        Some(resource) => (resource, None),
        None => match Box::pin(find(input, root, key)).await? {
            (Lookup::File(_), None) if bare => return Ok(redirect(input)),
            (Lookup::File(resource), fallback) => (resource, fallback),
            (Lookup::Folder, _) => return Ok(redirect(input)),
            (Lookup::NotFound, _) => return Err(Problem::NoFile.into()),
        },
    };
    let form = choose(input, route, &resource, root, fallback.is_some());
    if form == Form::Gzip
        && resource.plain.length() <= COMPRESSED_AT_ONCE
        && root.has_room(resource.plain.length())
        && let Some(right) = Compressing::claim(&resource.plain)
    {
        // Errors are ignored: sending the file reports them.
        let _ = Box::pin(within_time(input, make_gzip(right, route.compress.level))).await;
        root.grown(fallback.unwrap_or(key));
    }
    deliver(input, &resource, form)
}

/// The index paths of a folder, if the path is one of a folder: another route may protect an index
/// more strictly.
fn index_paths<'r>(path: &'r str, root: &'r Root) -> impl Iterator<Item = String> {
    let is_folder = root.files.file.is_none() && path.ends_with('/');
    let indexes = root.files.index.iter().filter(move |_| is_folder);
    indexes.map(move |index| format!("{path}{index}"))
}

/// The cache key of a file: the path of the request, percent-encoded.
fn key_of<'k>(request: &ClientRequest<'k>, root: &'k Root) -> &'k str {
    root.files.file.as_deref().unwrap_or_else(|| request.below_pattern())
}

/// The file or folder of a path; if missing, the fallback and its key.
async fn find<'r>(
    input: &StageInput<'_>,
    root: &'r Root,
    key: &str,
) -> Result<(Lookup, Option<&'r str>), Rejection> {
    let single = root.files.file.is_some();
    let path = match single {
        true => Some(key.as_bytes().to_vec()),
        false => decode_path(key, root.files.dot_files),
    };
    if let Some(path) = path.clone() {
        let found = within_time(input, root.find(key, path)).await?;
        if !matches!(found, Lookup::NotFound) {
            return Ok((found, None));
        }
    }
    let part = path.is_some_and(|path| weir_files::is_asset(&path, &root.files.types));
    let Some((key, fallback)) = root.fallback().filter(|_| !single && !part) else {
        return Ok((Lookup::NotFound, None));
    };
    let found = match root.recent(key, input.started) {
        Some(resource) => Lookup::File(resource),
        None => within_time(input, root.find(key, fallback.as_bytes().to_vec())).await?,
    };
    let found = if matches!(found, Lookup::Folder) { Lookup::NotFound } else { found };
    Ok((found, Some(key)))
}

/// Waits for disk I/O, within the deadline of the request.
async fn within_time<T>(
    input: &StageInput<'_>,
    work: impl Future<Output = Result<T, ReadError>>,
) -> Result<T, Rejection> {
    let done = input.deadline.within(Wait::Disk, weir_files::READ_TIMEOUT, work).await?;
    input.deadline.progress();
    done.map_err(|error| {
        let detail = match error {
            ReadError::Unreadable(error) if is_exhausted(&error) => {
                return Problem::DescriptorsExhausted.into();
            }
            ReadError::Unreadable(error) => error.kind().to_string(),
            ReadError::WouldBlock => "the disk has to be waited for".to_owned(),
        };
        Rejection::new(Problem::FileUnreadable).detail(detail)
    })
}

/// Redirects to the path of the folder with a trailing slash, so that relative links work.
fn redirect<'a>(input: &mut StageInput<'_>) -> ResponseBody<'a> {
    let request = input.request.head;
    let query = request.query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("{}/{query}", request.path());
    input.response.status = 301;
    input.response.headers.push("location", location.as_bytes());
    ResponseBody::Empty
}

/// The form of a file that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// The precompressed sibling with this index.
    Sibling(usize),
    /// Compressed by weir, now or earlier.
    Gzip,
    /// Input of the route's transformation, sent in another format.
    Mapped,
}

/// Selects the form by `Accept-Encoding`, and writes its headers.
fn choose(
    input: &mut StageInput<'_>,
    route: &Route,
    resource: &Resource,
    root: &Root,
    fallback: bool,
) -> Form {
    let headers = &mut input.response.headers;
    input.response.status = 200;
    headers.push_known(Known::ContentType, resource.content_type.as_bytes());
    if fallback {
        // A missing file may exist later.
        headers.push("cache-control", b"no-cache");
    } else if let Some(value) = &root.files.cache_control {
        headers.push("cache-control", value.as_bytes());
    }
    let mapped = match &route.response_map {
        None => false,
        Some(BodyMap::Structure(structure)) => {
            Source::of(&structure.from, headers.known(Known::ContentType)).is_some()
        }
        Some(BodyMap::Script(_)) => true,
    };
    if mapped {
        return Form::Mapped;
    }
    let request = &input.request.head.headers;
    if resource.coded.iter().any(Option::is_some) {
        add_vary(headers, "accept-encoding");
        if let Some(place) = sibling(resource, Codings::of(request)) {
            headers.push_known(Known::ContentEncoding, CODINGS[place].0.as_ref().as_bytes());
            return Form::Sibling(place);
        }
    }
    let candidate = compress::Candidate {
        status: 200,
        headers,
        length: Some(resource.plain.length()),
        head: false,
    };
    // Only gzip is cached; other codings are applied while the file is sent.
    let gzip =
        Some(ContentCoding::Gzip).filter(|gzip| route.compress.codings.contains(&Some(*gzip)));
    let kept = Compression { codings: [gzip, None, None], ..route.compress };
    match compress::decide(&kept, request, &candidate) {
        Decision::Plain => Form::Plain,
        decision => {
            add_vary(headers, "accept-encoding");
            // A range of a body that is compressed while it is sent is useless to clients.
            let part = request.known(Known::Range).is_some();
            if matches!(decision, Decision::Encode(_)) && !part { Form::Gzip } else { Form::Plain }
        }
    }
}

/// Index of the sibling that the client prefers, if its weight is at least that of `identity`.
fn sibling(resource: &Resource, codings: Codings) -> Option<usize> {
    let weights = CODINGS.map(|(coding, ..)| codings.weight(coding));
    let there = (0..CODINGS.len()).filter(|&place| resource.coded[place].is_some());
    // Of equal weights the first.
    let best = there.rev().max_by_key(|&place| weights[place])?;
    (weights[best] > 0 && weights[best] >= codings.identity).then_some(best)
}

/// Sends a form of a file, subject to the conditions and ranges of the request.
fn deliver<'a>(
    input: &mut StageInput<'_>,
    resource: &Resource,
    form: Form,
) -> Result<ResponseBody<'a>, Rejection> {
    let file = match form {
        Form::Sibling(place) => resource.coded[place].as_ref().unwrap_or(&resource.plain),
        Form::Plain | Form::Gzip => &resource.plain,
        Form::Mapped => return Ok(bytes_of(&resource.plain, 0..resource.plain.length())),
    };
    // A file changed within the current second may change again with the same time.
    let settled = i64::try_from(input.unix).is_ok_and(|now| file.modified < now);
    let weak = form == Form::Gzip || !settled;
    let validators = Validators {
        tag: &file.tag,
        weak,
        last_modified: &file.last_modified,
        modified: file.modified,
    };
    let verdict = condition::evaluate(&input.request.head.headers, &validators);
    if verdict == Verdict::Failed {
        return Err(Problem::PreconditionFailed.into());
    }
    let headers = &mut input.response.headers;
    headers.push_with(Known::Etag, |out| {
        out.extend_from_slice(if weak { b"W/" } else { b"" });
        out.extend_from_slice(file.tag.as_bytes());
    });
    headers.push("last-modified", file.last_modified.as_bytes());
    if verdict == Verdict::NotModified {
        headers.remove("content-type");
        headers.remove("content-encoding");
        input.response.status = 304;
        return Ok(ResponseBody::Empty);
    }
    if form == Form::Gzip {
        return Ok(compressed(input, file));
    }
    headers.push("accept-ranges", b"bytes");
    // Ranges are defined for GET only (RFC 9110 section 14.2).
    let requested = match range_of(&input.request) {
        Some(value)
            if condition::range_holds(&input.request.head.headers, &validators, settled) =>
        {
            range::parse(value, file.length())
        }
        _ => Requested::Whole,
    };
    match requested {
        Requested::Whole => Ok(bytes_of(file, 0..file.length())),
        Requested::Parts(parts) => Ok(cut(input, file, &parts)),
        Requested::Unsatisfiable => {
            let length = format!("bytes */{}", file.length());
            Err(Rejection::new(Problem::RangeNotSatisfiable).header("content-range", length))
        }
    }
}

/// The Range header of a GET, if exactly one is present.
fn range_of<'k>(request: &ClientRequest<'k>) -> Option<&'k [u8]> {
    if request.head.method != Method::Get {
        return None;
    }
    let mut values = request.head.headers.known_all(Known::Range);
    values.next().filter(|_| values.next().is_none())
}

fn bytes_of<'a>(file: &Arc<Stored>, range: Range<u64>) -> ResponseBody<'a> {
    match file.in_memory() {
        _ if range.is_empty() => ResponseBody::Empty,
        // Indexes into the memory of the file.
        Some(bytes) => ResponseBody::Whole(bytes.slice(range.start as usize..range.end as usize)),
        None => ResponseBody::File(Box::new(FileBody::new(
            Arc::clone(file),
            [Chunk::File(range)].into(),
        ))),
    }
}

/// One range of a file, or several (RFC 9110 sections 14.4 and 14.6).
fn cut<'a>(
    input: &mut StageInput<'_>,
    file: &Arc<Stored>,
    parts: &[Range<u64>],
) -> ResponseBody<'a> {
    let content_range =
        |part: &Range<u64>| format!("bytes {}-{}/{}", part.start, part.end - 1, file.length());
    let response = &mut *input.response;
    response.status = 206;
    if let [part] = parts {
        response.headers.push("content-range", content_range(part).as_bytes());
        return bytes_of(file, part.clone());
    }
    let boundary = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    let content_type = response.headers.known(Known::ContentType).unwrap_or_default();
    let content_type = String::from_utf8_lossy(content_type).into_owned();
    let mut chunks = std::collections::VecDeque::with_capacity(2 * parts.len() + 1);
    for part in parts {
        let front = if chunks.is_empty() { "" } else { "\r\n" };
        let text = format!(
            "{front}--{boundary}\r\ncontent-type: {content_type}\r\ncontent-range: {}\r\n\r\n",
            content_range(part)
        );
        chunks.push_back(Chunk::Text(Bytes::from(text)));
        chunks.push_back(Chunk::File(part.clone()));
    }
    chunks.push_back(Chunk::Text(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    let content_type = format!("multipart/byteranges; boundary={boundary}");
    response.headers.set("content-type", content_type.as_bytes());
    let Some(bytes) = file.in_memory() else {
        return ResponseBody::File(Box::new(FileBody::new(Arc::clone(file), chunks)));
    };
    let mut whole = Vec::new();
    for piece in chunks {
        match piece {
            Chunk::Text(text) => whole.extend_from_slice(&text),
            Chunk::File(part) => {
                whole.extend_from_slice(&bytes[part.start as usize..part.end as usize])
            }
        }
    }
    ResponseBody::Whole(Bytes::from(whole))
}

/// A file compressed by weir: the cached gzip, or the plain file, which the stage after the handler
/// compresses while it is sent.
fn compressed<'a>(input: &mut StageInput<'_>, file: &Arc<Stored>) -> ResponseBody<'a> {
    match file.gzip() {
        Some(gzip) => {
            input.response.headers.push_known(Known::ContentEncoding, b"gzip");
            ResponseBody::Whole(gzip.clone())
        }
        None => bytes_of(file, 0..file.length()),
    }
}

/// Compresses a small file immediately, a larger one on a thread.
async fn make_gzip(right: Compressing, level: u32) -> Result<(), ReadError> {
    if let Some(bytes) = right.file().in_memory() {
        right.compress(bytes, level);
        return Ok(());
    }
    weir_files::on_thread(move || {
        let file = right.file();
        let Some(open) = file.open() else { return Ok(()) };
        let bytes = weir_files::read_all(open, file.length() as usize, IoMode::Blocking)?;
        if bytes.len() as u64 == file.length() && file.is_unchanged() {
            right.compress(&bytes, level);
        }
        Ok(())
    })
    .await
}
