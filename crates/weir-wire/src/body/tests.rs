//! Every bad chunk, every way a body ends, and where its bytes are said to be.

use super::{BodyDecoder, BodyError, MAX_EXTENSION_BYTES, MAX_TRAILER_BYTES, MAX_TRAILER_FIELDS};
use crate::Framing;

/// Everything of the body in `input`, and how many bytes were dealt with.
fn decode(decoder: &mut BodyDecoder, input: &[u8]) -> Result<(Vec<u8>, usize), BodyError> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let decoded = decoder.decode(&input[at..])?;
        body.extend_from_slice(&input[at..][decoded.data]);
        at += decoded.consumed;
        if decoded.consumed == 0 {
            return Ok((body, at));
        }
    }
}

fn chunked(input: &str) -> Result<(Vec<u8>, usize), BodyError> {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let found = decode(&mut decoder, input.as_bytes())?;
    decoder.close()?;
    Ok(found)
}

#[test]
fn bad_chunks_are_refused() {
    use BodyError::{ChunkEnd, ChunkExtension, ChunkSize, Trailers, Truncated};
    for (input, error) in [
        ("\r\n", ChunkSize),
        ("g\r\n", ChunkSize),
        ("-1\r\n", ChunkSize),
        ("+1\r\n", ChunkSize),
        ("0x1\r\n", ChunkSize),
        (" 1\r\n", ChunkSize),
        ("1 \r\n", ChunkSize),
        ("1\t\r\n", ChunkSize),
        ("1 ;a\r\n", ChunkSize),
        (";a\r\n", ChunkSize),
        ("1\n", ChunkSize),
        ("1,2\r\n", ChunkSize),
        ("00000000000000001\r\n", ChunkSize),
        ("10000000000000000\r\n", ChunkSize),
        ("1\rX", ChunkEnd),
        ("1;a\rX", ChunkEnd),
        ("1\r\na\n", ChunkEnd),
        ("1\r\nab\r\n", ChunkEnd),
        ("1\r\na\rX", ChunkEnd),
        ("1\r\na1\r\n", ChunkEnd),
        ("5\r\nabc\r\n0\r\n\r\n", ChunkEnd),
        ("1;a\n", ChunkExtension),
        ("1;a\0\r\n", ChunkExtension),
        ("1;a\x7f\r\n", ChunkExtension),
        ("1\r\na\r\n\r\n", ChunkSize),
        ("0\n\r\n", ChunkSize),
        ("0\r\n\n", Trailers),
        ("0\r\n\rX", Trailers),
        ("0\r\nA: b\n\r\n", Trailers),
        ("0\r\nA: b\r\n\n", Trailers),
        ("0\r\nA : b\r\n\r\n", Trailers),
        ("0\r\nA: b\r\n c\r\n\r\n", Trailers),
        ("0\r\n A: b\r\n\r\n", Trailers),
        ("0\r\nA\r\n\r\n", Trailers),
        ("0\r\nA: b\0\r\n\r\n", Trailers),
        ("0\r\nGET / HTTP/1.1\r\n\r\n", Trailers),
        ("", Truncated),
        ("5\r\nabc", Truncated),
        ("5\r\nabcde\r\n", Truncated),
        ("0\r\n", Truncated),
        ("0\r\n\r", Truncated),
        ("0\r\nA: b\r\n", Truncated),
    ] {
        assert_eq!(chunked(input).unwrap_err(), error, "{input:?}");
    }
}

#[test]
fn good_chunks_are_read() {
    for (input, body, rest) in [
        ("0\r\n\r\n", "", ""),
        ("000\r\n\r\n", "", ""),
        ("5\r\nabcde\r\n0\r\n\r\n", "abcde", ""),
        ("5\r\nabcde\r\n1\r\nf\r\n0\r\n\r\n", "abcdef", ""),
        ("0000000000000005\r\nabcde\r\n0\r\n\r\n", "abcde", ""),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", ""),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", ""),
        ("1;a\r\nx\r\n0;b=c;d=\"e\tf\"\r\n\r\n", "x", ""),
        ("1;\r\nx\r\n0\r\n\r\n", "x", ""),
        ("0\r\n\r\nGET / HTTP/1.1", "", "GET / HTTP/1.1"),
        ("0\r\nA: b\r\n\r\n\r\n", "", "\r\n"),
    ] {
        let taken = input.len() - rest.len();
        assert_eq!(chunked(input), Ok((body.as_bytes().to_vec(), taken)), "{input:?}");
    }
}

#[test]
fn the_largest_chunk_size_is_no_overflow() {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let (body, taken) = decode(&mut decoder, b"ffffffffffffffff\r\nabc").unwrap();
    assert_eq!((body.as_slice(), taken), (&b"abc"[..], 21));
    assert_eq!(decoder.close(), Err(BodyError::Truncated));
}

#[test]
fn trailers_are_kept_apart() {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    assert!(decoder.trailers().is_none());
    decode(&mut decoder, b"0\r\nDigest: abc\r\nContent-Length: 5\r\n\r").unwrap();
    assert!(decoder.trailers().is_none(), "not complete yet");
    decode(&mut decoder, b"\n").unwrap();
    assert!(decoder.is_done());
    let trailers = decoder.trailers().unwrap();
    assert_eq!(trailers.get("digest"), Some(&b"abc"[..]));
    assert_eq!(trailers.len(), 2);
}

#[test]
fn without_trailers_there_are_none_however_the_end_is_split() {
    for split in 0..5 {
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let (first, second) = b"0\r\n\r\n".split_at(split);
        decode(&mut decoder, first).unwrap();
        decode(&mut decoder, second).unwrap();
        assert!(decoder.is_done() && decoder.trailers().is_none(), "split at {split}");
    }
}

#[test]
fn what_costs_work_without_being_body_is_bounded() {
    let extensions = |length: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(length));
    assert!(chunked(&extensions(MAX_EXTENSION_BYTES as usize)).is_ok());
    let over = extensions(MAX_EXTENSION_BYTES as usize + 1);
    assert_eq!(chunked(&over), Err(BodyError::ChunkExtension));
    let many = "1;abc\r\nx\r\n".repeat(MAX_EXTENSION_BYTES as usize / 3 + 1);
    assert_eq!(chunked(&many), Err(BodyError::ChunkExtension), "over all chunks of a body");

    let trailer = |length: usize| format!("0\r\nA: {}\r\n\r\n", "a".repeat(length));
    assert!(chunked(&trailer(MAX_TRAILER_BYTES - 7)).is_ok());
    assert_eq!(chunked(&trailer(MAX_TRAILER_BYTES - 6)), Err(BodyError::Trailers));
    let fields = |count: usize| format!("0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(chunked(&fields(MAX_TRAILER_FIELDS)).is_ok());
    assert_eq!(chunked(&fields(MAX_TRAILER_FIELDS + 1)), Err(BodyError::Trailers));
}

#[test]
fn a_length_is_counted_down() {
    let mut decoder = BodyDecoder::new(Framing::Length(5));
    assert_eq!(decoder.remaining(), Some(5));
    assert_eq!(decode(&mut decoder, b"abc").unwrap(), (b"abc".to_vec(), 3));
    assert_eq!((decoder.remaining(), decoder.is_done()), (Some(2), false));
    assert_eq!(decoder.close(), Err(BodyError::Truncated));
    assert_eq!(decode(&mut decoder, b"defgh").unwrap(), (b"de".to_vec(), 2));
    assert_eq!((decoder.remaining(), decoder.is_done()), (Some(0), true));
    assert_eq!(decoder.close(), Ok(()));
}

#[test]
fn no_body_takes_nothing() {
    for framing in [Framing::None, Framing::Length(0)] {
        let mut decoder = BodyDecoder::new(framing);
        assert!(decoder.is_done() && framing.is_empty());
        assert_eq!(decode(&mut decoder, b"GET").unwrap(), (Vec::new(), 0));
    }
}

#[test]
fn until_close_ends_with_the_connection_only() {
    let mut decoder = BodyDecoder::new(Framing::UntilClose);
    assert_eq!(decode(&mut decoder, b"abc").unwrap(), (b"abc".to_vec(), 3));
    assert_eq!((decoder.remaining(), decoder.is_done()), (None, false));
    assert_eq!(decoder.close(), Ok(()));
    assert!(decoder.is_done());
}
