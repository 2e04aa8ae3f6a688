use super::*;
use proptest::prelude::*;

fn record(kind: u8, request: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let header = Header { kind, request, length: content.len() as u16, padding };
    [&header.encode()[..], content, &vec![0xee; usize::from(padding)]].concat()
}

fn end(status: u32, protocol: u8) -> Vec<u8> {
    let [a, b, c, d] = status.to_be_bytes();
    record(kind::END_REQUEST, REQUEST_ID, &[a, b, c, d, protocol, 0, 0, 0], 0)
}

/// Standard output, standard error, how it ended, and how many bytes were taken.
type Read = (Vec<u8>, Vec<u8>, Option<End>, usize);

/// Reads as a connection would: what is not taken is given again, with more behind it.
fn read<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<Read, FastCgiError> {
    let (mut answer, mut buffer) = (ResponseReader::default(), Vec::new());
    let (mut out, mut err, mut ended, mut taken) = (Vec::new(), Vec::new(), None, 0);
    for chunk in pieces {
        buffer.extend_from_slice(chunk);
        loop {
            let Decoded { consumed, data, event } = answer.decode(&buffer)?;
            match event {
                Event::Pending => {}
                Event::Stdout => out.extend_from_slice(&buffer[data]),
                Event::Stderr => err.extend_from_slice(&buffer[data]),
                Event::End(end) => ended = Some(end),
            }
            buffer.drain(..consumed);
            taken += consumed;
            if matches!(event, Event::Pending | Event::End(_)) {
                break;
            }
        }
    }
    assert_eq!(answer.is_done(), ended.is_some());
    Ok((out, err, ended, taken))
}

#[test]
fn an_answer_is_the_same_however_it_is_cut() {
    let bytes = [
        record(kind::STDERR, REQUEST_ID, b"warning\n", 3),
        record(kind::STDOUT, REQUEST_ID, b"Content-Type: text/plain\r\n\r\n", 7),
        record(kind::UNKNOWN_TYPE, 0, &[99, 0, 0, 0, 0, 0, 0, 0], 0),
        record(200, REQUEST_ID, b"of a later version", 1),
        record(kind::STDOUT, 0, b"of no request", 0),
        record(kind::STDOUT, REQUEST_ID, &[7; MAX_CONTENT_BYTES], 255),
        record(kind::STDOUT, REQUEST_ID, b"", 0),
        record(kind::STDERR, REQUEST_ID, b"", 8),
        end(3, 0),
    ]
    .concat();
    let whole = read([&bytes[..]]).unwrap();
    assert_eq!(whole.0.len(), 28 + MAX_CONTENT_BYTES);
    assert_eq!(whole.1, b"warning\n");
    assert_eq!(whole.2, Some(End { application: 3, protocol: ProtocolStatus::Complete }));
    assert_eq!(whole.3, bytes.len());
    assert_eq!(read(bytes.chunks(1)).unwrap(), whole);
    for at in [1, 7, 8, 9, 15, 16, 19, 100, bytes.len() - 9] {
        let (one, other) = bytes.split_at(at);
        assert_eq!(read([one, other]).unwrap(), whole, "cut at {at}");
    }
}

#[test]
fn nothing_behind_the_end_is_taken() {
    let bytes = [end(0, 0), record(kind::STDOUT, REQUEST_ID, b"late", 0)].concat();
    assert_eq!(read([&bytes[..]]).unwrap().3, 16);
}

#[test]
fn what_is_no_answer_is_refused() {
    let refused = [
        (b"HTTP/1.1 200 OK\r\n".to_vec(), FastCgiError::Version(b'H')),
        (b"x".to_vec(), FastCgiError::Version(b'x')),
        (record(kind::STDOUT, 2, b"x", 0), FastCgiError::RequestId(2)),
        (record(kind::END_REQUEST, REQUEST_ID, &[0; 7], 0), FastCgiError::Short),
        (end(0, 4), FastCgiError::ProtocolStatus(4)),
    ];
    for (bytes, error) in refused {
        assert_eq!(read([&bytes[..]]), Err(error));
        assert_eq!(read(bytes.chunks(1)), Err(error));
    }
    for (code, status) in [
        (1, ProtocolStatus::CannotMultiplex),
        (2, ProtocolStatus::Overloaded),
        (3, ProtocolStatus::UnknownRole),
    ] {
        let ended = read([&end(0, code)[..]]).unwrap().2;
        assert_eq!(ended, Some(End { application: 0, protocol: status }));
    }
}

/// What an agent reads of a request: kinds and contents, each stream joined.
fn received(bytes: &[u8]) -> Vec<(u8, u16, Vec<u8>)> {
    let (mut reader, mut rest) = (RecordReader::default(), bytes);
    let mut records: Vec<(u8, u16, Vec<u8>)> = Vec::new();
    while let Some(step) = reader.step(rest).unwrap() {
        match step.part {
            Part::Header(header) => records.push((header.kind, header.request, Vec::new())),
            Part::Content(_) => records.last_mut().unwrap().2.extend_from_slice(&rest[step.data]),
            Part::End(_) => {}
        }
        rest = &rest[step.consumed..];
    }
    assert!(rest.is_empty());
    records
}

#[test]
fn a_request_is_its_start_its_parameters_and_its_body() {
    let mut out = Vec::new();
    request::begin(&mut out, true);
    let mut params = ParamsWriter::new(&mut out);
    params.push("REQUEST_METHOD", b"GET");
    params.push("EMPTY", b"");
    params.push("LONG", &[b'x'; 200]);
    params.finish_request();
    request::stdin(&mut out, &[]);
    request::stdin(&mut out, &[5; MAX_CONTENT_BYTES + 1]);
    request::stdin_end(&mut out);
    request::abort(&mut out);
    request::get_values(&mut out);
    let records = received(&out);
    let kinds: Vec<(u8, u16, usize)> = records.iter().map(|r| (r.0, r.1, r.2.len())).collect();
    assert_eq!(
        kinds,
        [
            (kind::BEGIN_REQUEST, 1, 8),
            (kind::PARAMS, 1, 19 + 7 + 209),
            (kind::PARAMS, 1, 0),
            (kind::STDIN, 1, MAX_CONTENT_BYTES),
            (kind::STDIN, 1, 1),
            (kind::STDIN, 1, 0),
            (kind::ABORT_REQUEST, 1, 0),
            (kind::GET_VALUES, 0, 17),
        ]
    );
    assert_eq!(records[0].2, [0, 1, 1, 0, 0, 0, 0, 0]);
    let pairs: Vec<_> = Params::new(&records[1].2).map(Result::unwrap).collect();
    assert_eq!(pairs[0], (&b"REQUEST_METHOD"[..], &b"GET"[..]));
    assert_eq!(pairs[1], (&b"EMPTY"[..], &b""[..]));
    assert_eq!(pairs[2], (&b"LONG"[..], &[b'x'; 200][..]));
}

#[test]
fn no_parameters_are_one_empty_record() {
    let mut out = Vec::new();
    ParamsWriter::new(&mut out).finish_request();
    assert_eq!(received(&out), [(kind::PARAMS, REQUEST_ID, Vec::new())]);
}

#[test]
fn lengths_beyond_the_end_are_refused_once() {
    for bytes in [&[5, 0, b'a'][..], &[0x80], &[0xff, 0xff, 0xff, 0xff, 0], &[1]] {
        let pairs: Vec<_> = Params::new(bytes).collect();
        assert_eq!(pairs, [Err(FastCgiError::Pair)], "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn parameters_come_out_as_they_went_in(
        pairs in prop::collection::vec(
            ("[A-Z_]{0,300}", prop::collection::vec(any::<u8>(), 0..40_000)), 0..6)
    ) {
        let mut out = b"before".to_vec();
        let mut params = ParamsWriter::new(&mut out);
        for (name, value) in &pairs {
            params.push(name, value);
        }
        params.finish_request();
        prop_assert_eq!(&out[..6], b"before");
        let records = received(&out[6..]);
        let (last, stream) = records.split_last().unwrap();
        prop_assert!(last.2.is_empty() && stream.iter().all(|r| !r.2.is_empty()));
        let stream: Vec<u8> = stream.iter().flat_map(|r| r.2.clone()).collect();
        let read: Vec<_> = Params::new(&stream)
            .map(|pair| pair.map(|(n, v)| (String::from_utf8_lossy(n).into_owned(), v.to_vec())))
            .collect::<Result<_, _>>()
            .unwrap();
        prop_assert_eq!(read, pairs);
    }

    #[test]
    fn any_bytes_are_read_the_same_in_any_pieces(
        kinds in prop::collection::vec((0u8..14, 0u16..3, 0usize..40, any::<u8>()), 0..8),
        noise in prop::collection::vec(any::<u8>(), 0..20),
        size in 1usize..40,
    ) {
        let mut bytes: Vec<u8> =
            kinds.iter().flat_map(|&(k, r, l, p)| record(k, r, &vec![k; l], p)).collect();
        bytes.extend_from_slice(&noise);
        prop_assert_eq!(read([&bytes[..]]), read(bytes.chunks(size)));
    }
}
