//! A data folder of an earlier format passes from one process to the next.

use super::{id, recorded, upgraded};
use crate::harness::eventually;
use crate::monitor::{calls, usage};
use crate::older_data::format_1;

/// Calls in the fixture, and its transactions.
const FIXTURE: (u64, usize) = (3, 5);

#[test]
fn a_data_folder_of_format_1_is_handed_over_with_all_transactions_and_counts() {
    let mut server = format_1().start();
    let request = |path: &str| {
        let response = server.connect().request("GET", path, &[("x-key", "of acme")], "");
        assert_eq!(response.status, 200, "{}", response.text());
        id(&response)
    };
    let mut ids = vec![request("/orders/10")];
    let successor = upgraded(&server);
    ids.push(request("/orders/11"));
    // The predecessor says now and then how far it has written.
    eventually("calls of both processes are counted", || {
        calls(&usage(&server, "from=2026-11-01")) == FIXTURE.0 + 2
    });
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    eventually("the successor adopts the journal", || {
        server.stderr().contains("the old process has ended")
    });
    successor.stop();
    let found = recorded(&server);
    assert_eq!(found.len(), FIXTURE.1 + 2);
    assert!(ids.iter().all(|id| found.contains(id)));
}
