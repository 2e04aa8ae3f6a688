use super::*;

const LIMITS: HeadLimits = HeadLimits { bytes: 300, fields: 4, target: 0 };

fn parse(bytes: &[u8], method: Method) -> Result<Option<(usize, ResponseHead)>, HeadError> {
    let mut head = ResponseHead::default();
    let whole = CgiScan::default().parse(bytes, method, &mut head, &LIMITS)?;
    let (mut scan, mut again) = (CgiScan::default(), ResponseHead::default());
    let mut bit_by_bit = None;
    for end in 0..=bytes.len() {
        bit_by_bit = scan.parse(&bytes[..end], method, &mut again, &LIMITS)?;
        if bit_by_bit.is_some() {
            break;
        }
    }
    assert_eq!(whole, bit_by_bit);
    assert_eq!((head.status, head.framing), (again.status, again.framing));
    Ok(whole.map(|taken| (taken, head)))
}

#[test]
fn lines_end_in_lf_or_crlf_and_the_status_is_a_field() {
    let bytes = b"Status: 404 Not Found\nContent-Type:text/plain \r\nX: \n\nbody";
    let (taken, head) = parse(bytes, Method::Get).unwrap().unwrap();
    assert_eq!(&bytes[taken..], b"body");
    assert_eq!((head.status, head.framing), (404, Framing::UntilClose));
    assert_eq!(head.headers.get("content-type"), Some(&b"text/plain"[..]));
    assert_eq!(head.headers.get("x"), Some(&b""[..]));
    assert_eq!(head.headers.get("status"), None);
}

#[test]
fn what_is_not_said_follows_from_what_is() {
    let status = |bytes: &[u8]| parse(bytes, Method::Get).unwrap().unwrap().1.status;
    assert_eq!(status(b"Content-Type: a/b\n\n"), 200);
    assert_eq!(status(b"Location: http://b/\n\n"), 302);
    assert_eq!(status(b"Location: http://b/\nStatus: 201\n\n"), 201);
    let framing = |bytes: &[u8], method| parse(bytes, method).unwrap().unwrap().1.framing;
    assert_eq!(framing(b"Content-Length: 12\n\n", Method::Get), Framing::Length(12));
    assert_eq!(framing(b"Content-Length: 12\n\n", Method::Head), Framing::None);
    assert_eq!(framing(b"Status: 304\n\n", Method::Get), Framing::None);
    assert_eq!(parse(b"Content-Type: a/b\n", Method::Get).unwrap().map(|p| p.0), None);
}

#[test]
fn what_is_no_head_is_refused() {
    for (bytes, error) in [
        (&b"\nbody"[..], HeadError::StartLine),
        (b"hello world\n\n", HeadError::FieldName),
        (b"HTTP/1.1 200 OK\n\n", HeadError::FieldName),
        (b": x\n\n", HeadError::FieldName),
        (b"a b: x\n\n", HeadError::FieldName),
        (b"A: x\n y\n\n", HeadError::Folded),
        (b"A: x\0\n\n", HeadError::FieldValue),
        (b"A: x\ry\n\n", HeadError::FieldValue),
        (b"Status: 99\n\n", HeadError::StartLine),
        (b"Status: 100 Continue\n\n", HeadError::StartLine),
        (b"Status: 2000\n\n", HeadError::StartLine),
        (b"Status: \"20% OK\n\n", HeadError::StartLine),
        (b"Status: 200\nStatus: 200\n\n", HeadError::StartLine),
        (b"Content-Length: x\n\n", HeadError::LengthInvalid),
        (b"Content-Length: 1\nContent-Length: 1\n\n", HeadError::LengthRepeated),
        (b"A: 1\nB: 2\nC: 3\nD: 4\nE: 5\n\n", HeadError::TooManyFields),
        (&[b'a'; 301], HeadError::TooLong),
    ] {
        let found = parse(bytes, Method::Get).map(|head| head.map(|(taken, _)| taken));
        assert_eq!(found, Err(error), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_path_without_a_status_is_for_weir_itself() {
    let local = |bytes: &[u8]| {
        let (mut scan, mut head) = (CgiScan::default(), ResponseHead::default());
        scan.parse(bytes, Method::Get, &mut head, &LIMITS).unwrap().unwrap();
        scan.local_redirect(&head).map(str::to_owned)
    };
    assert_eq!(local(b"Location: /a?b=c\n\n"), Some("/a?b=c".to_owned()));
    for elsewhere in [
        &b"Status: 302\nLocation: /a\n\n"[..],
        b"Location: //b/a\n\n",
        b"Location: http://b/a\n\n",
        b"Location: a\n\n",
        b"Content-Type: a/b\n\n",
    ] {
        assert_eq!(local(elsewhere), None);
    }
}
