use super::*;

fn left(headers: &[&str], passed: &[&str]) -> Vec<String> {
    let mut list = Headers::new();
    for name in headers {
        list.push(name, b"x");
    }
    let passed: Vec<String> = passed.iter().map(|&name| name.to_owned()).collect();
    let secret = |known: Known, name: &str| {
        matches!(known, Known::Authorization | Known::Cookie) || name == "x-api-key"
    };
    withhold(&mut list, &passed, secret);
    list.iter().map(|(_, name, _)| name.to_owned()).collect()
}

#[test]
fn programs_see_no_credentials() {
    let all = ["Accept", "Authorization", "Cookie", "X-User", "X_User", "x-api-key", "Proxy"];
    // Names with an underscore were removed earlier.
    assert_eq!(left(&all, &[]), ["Accept", "X-User", "X_User"]);
    let listed = ["cookie", "x_user", "x-api-key", "authorization"];
    let passed = ["Accept", "Authorization", "Cookie", "X-User", "X_User", "x-api-key"];
    assert_eq!(left(&all, &listed), passed);
    assert!(left(&["PROXY", "proxy"], &["proxy"]).is_empty());
}
