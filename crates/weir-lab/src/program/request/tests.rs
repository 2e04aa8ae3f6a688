use super::*;

#[test]
fn urls_are_parsed() {
    let parse = |url| {
        let (origin, target) = Origin::parse(url).unwrap();
        (origin.authority(), origin.port, origin.tls, target)
    };
    assert_eq!(parse("http://a/b?c=d#e"), ("a".to_owned(), 80, false, "/b?c=d".to_owned()));
    assert_eq!(parse("HTTPS://a"), ("a".to_owned(), 443, true, "/".to_owned()));
    assert_eq!(parse("https://a:80"), ("a:80".to_owned(), 80, true, "/".to_owned()));
    assert_eq!(
        parse("http://[::1]:81/ä b"),
        ("[::1]:81".to_owned(), 81, false, "/%C3%A4%20b".to_owned())
    );
    assert_eq!(parse("http://u:p@a?x"), ("a".to_owned(), 80, false, "/?x".to_owned()));
}

#[test]
fn invalid_urls_are_rejected() {
    let parse = |url| Origin::parse(url).unwrap_err();
    assert_eq!(parse("a/b"), UrlError::Scheme);
    assert_eq!(parse("ftp://a"), UrlError::Scheme);
    assert_eq!(parse("http:///a"), UrlError::Host);
    assert_eq!(parse("http://a b/"), UrlError::Host);
    assert_eq!(parse("http://a:0/"), UrlError::Port);
    assert_eq!(parse("http://a:99999/"), UrlError::Port);
}
