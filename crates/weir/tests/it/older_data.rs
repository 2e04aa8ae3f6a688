//! Data folders of earlier formats, as they were written then (`tests/fixtures/data-N`), are opened,
//! searched and continued.

use crate::admin_api::{first_token, get};
use crate::harness::{Weir, eventually, key_hash, transactions};
use crate::monitor::{calls, usage};
use std::io::Read as _;
use std::path::Path;

/// Copies a fixture, compressed files decompressed.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a fixture").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else if path.extension().is_some_and(|extension| extension == "gz") {
            let file = std::fs::File::open(&path).expect("a file");
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
            std::fs::write(to.with_extension(""), bytes).expect("a file");
        } else {
            std::fs::copy(&path, &to).expect("a file");
        }
    }
}

/// A weir with the data folder of format 1, not yet started. Requests need the key `of acme`.
pub(crate) fn format_1() -> Weir {
    // The retention is longer than the fixture is old.
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         tracker: {{enabled: true, keep: {{completed: 10000d, failed: 10000d}}}}\n\
         monitor: {{keep: 10000d}}\nauth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         plans: {{gold: {{quota: {{calls: 1000, per: year}}}}}}\n\
         consumers: {{acme: {{plan: gold, api_keys: [\"{}\"]}}}}\n\
         apis:\n  orders:\n    base: /orders\n    auth: keys\n    routes:\n      \
         - {{op: read, get: \"/{{id}}\", reply: {{text: order}}}}\n",
        key_hash("of acme")
    );
    let weir = Weir::new(&config);
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data-1");
    copy(&fixture, &weir.dir().join("data"));
    weir
}

#[test]
fn a_data_folder_of_format_1_is_searched_and_continued() {
    let weir = format_1();
    let server = weir.start();
    let metered = || calls(&usage(&server, "from=2026-11-01"));
    assert_eq!(metered(), 3, "the calls of the fixture, each once");
    let response = server.connect().request("GET", "/orders/4", &[("x-key", "of acme")], "");
    assert_eq!(response.status, 200);
    assert_eq!(metered(), 4);
    let token = first_token(&server);
    eventually("the old transaction and the new one are found", || {
        let found = get(&server, "/v1/transactions?q=status:200&limit=50", &token);
        assert_eq!(found.status, 200, "{}", found.text());
        found.text().matches("/orders/").count() >= 4
    });
    // Its index has no column of plans: its journal is asked. That of the new transaction has.
    let found = |query: &str| {
        let found = get(&server, &format!("/v1/transactions?q={query}"), &token).json();
        found["transactions"].as_array().unwrap().len()
    };
    assert_eq!(
        [found("plan:gold"), found("plan:gold%20since:1h"), found("plan:silver")],
        [4, 1, 0]
    );
    assert!(!server.stderr().contains("journal:"), "{}", server.stderr());
    let mut server = server;
    server.kill();
    let all = transactions(&server.data());
    assert_eq!(all.len(), 6);
    let id = "01a20af7-96e2-7b1c-bf65-3c3c749017b5";
    assert!(all.iter().any(|one| crate::harness::id_of(one) == id && one.status == 404));
}
