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
fn an_authority_has_brackets_around_ipv6_and_the_port_where_it_is_needed() {
    let of = |host: &str, port| Origin { tls: true, host: host.to_owned(), port };
    assert_eq!(of("h", 443).authority(), "h");
    assert_eq!(of("::1", 443).authority(), "[::1]");
    assert_eq!(of("::1", 80).authority(), "[::1]:80");
    // A tunnel needs the port always.
    assert_eq!(of("h", 443).host_and_port(), "h:443");
    assert_eq!(of("::1", 443).host_and_port(), "[::1]:443");
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
