//! Properties of the FastCGI and CGI codecs that hold for whatever an agent sends.
//!
//! - It does not matter how the bytes are split: the same output, the same end, the same error.
//! - Every range it gives lies inside its input, and it never panics.
//! - Pairs that are read, written again, are read as the same pairs.

use weir_wire::cgi::CgiScan;
use weir_wire::fastcgi::{Decoded, End, Event, Params, ParamsWriter, ResponseReader};
use weir_wire::{Framing, HeadLimits, Method, ResponseHead};

/// Small enough for inputs to reach them.
const LIMITS: HeadLimits = HeadLimits { bytes: 1024, fields: 12, target: 0 };

/// Checks every property on `bytes` as what an agent sends.
pub fn agents(bytes: &[u8]) {
    let whole = read([bytes]);
    assert_eq!(whole, read(bytes.chunks(1)), "byte by byte");
    assert_eq!(whole, read(bytes.chunks(7)), "in pieces of 7");
    assert_eq!(head([bytes]), head(bytes.chunks(1)), "a head byte by byte");
    if let Ok(Reading { out, .. }) = &whole {
        let _ = head([&out[..]]);
    }
    pairs(bytes);
}

#[derive(Debug, PartialEq)]
struct Reading {
    out: Vec<u8>,
    err: Vec<u8>,
    end: Option<End>,
    taken: usize,
}

fn read<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<Reading, String> {
    let (mut answer, mut buffer) = (ResponseReader::default(), Vec::new());
    let mut reading = Reading { out: Vec::new(), err: Vec::new(), end: None, taken: 0 };
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let decoded = answer.decode(&buffer).map_err(|error| error.to_string())?;
            let Decoded { consumed, data, event } = decoded;
            assert!(data.start <= data.end && data.end <= consumed && consumed <= buffer.len());
            match event {
                Event::Pending => {}
                Event::Stdout => reading.out.extend_from_slice(&buffer[data]),
                Event::Stderr => reading.err.extend_from_slice(&buffer[data]),
                Event::End(end) => reading.end = Some(end),
            }
            buffer.drain(..consumed);
            reading.taken += consumed;
            if matches!(event, Event::Pending | Event::End(_)) {
                break;
            }
        }
    }
    Ok(reading)
}

type Head = (u16, Framing, Vec<(String, Vec<u8>)>, usize);

fn head<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<Option<Head>, String> {
    let (mut scan, mut head, mut buffer) =
        (CgiScan::default(), ResponseHead::default(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let parsed = scan.parse(&buffer, Method::Get, &mut head, &LIMITS);
        if let Some(taken) = parsed.map_err(|error| error.to_string())? {
            assert!(taken <= buffer.len() && taken <= LIMITS.bytes);
            assert!((200..=599).contains(&head.status));
            let fields = head.headers.iter().map(|(_, n, v)| (n.to_owned(), v.to_vec())).collect();
            return Ok(Some((head.status, head.framing, fields, taken)));
        }
    }
    Ok(None)
}

fn pairs(bytes: &[u8]) {
    let read: Vec<_> = Params::new(bytes).map_while(Result::ok).collect();
    let mut out = Vec::new();
    let mut writer = ParamsWriter::new(&mut out);
    let names: Vec<String> = read.iter().map(|(n, _)| String::from_utf8_lossy(n).into()).collect();
    for (name, (_, value)) in names.iter().zip(&read) {
        writer.push(name, value);
    }
    writer.finish(weir_wire::fastcgi::kind::PARAMS, 1);
    let again: Vec<_> = Params::new(&out[8..]).collect();
    assert_eq!(again.len(), read.len());
    for ((pair, name), (_, value)) in again.iter().zip(&names).zip(&read) {
        assert_eq!(pair.as_ref().ok(), Some(&(name.as_bytes(), *value)));
    }
}
