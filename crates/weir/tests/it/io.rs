//! Connections by io_uring and by epoll: what is chosen, and what is said about it.

use crate::harness::{Server, Weir};

const HELLO: &str = "workers: 1\nlisten: [{addr: \"127.0.0.1:0\"}]\n\
                     apis: {all: {base: /, routes: [{get: /, reply: {text: hello}}]}}\n";

/// Executes its arguments without the permission to use io_uring, as under the seccomp profile of many
/// container platforms: `io_uring_setup`, 425 on every architecture, returns EPERM.
const WITHOUT_RING: &str = r"
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
text = b''.join(struct.pack('HBBI', *one) for one in code)
libc = ctypes.CDLL(None, use_errno=True)
memory = ctypes.create_string_buffer(text)
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(code), ctypes.addressof(memory)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
";

fn without_ring(config: &str) -> Weir {
    Weir::new(config).under(&["python3", "-c", WITHOUT_RING])
}

fn is_ring(server: &Server) -> bool {
    assert_eq!(server.connect().get("/").text(), "hello");
    let operations = server.metric("weir_ring_operations_total", &[]);
    let is_ring = server.metric("weir_io_ring", &[]) == 1.0;
    assert!(is_ring || operations == 0.0);
    is_ring
}

#[test]
fn the_configured_backend_is_used() {
    // The last argument counts, also before the choice of whoever runs all tests.
    let epoll = Weir::new(HELLO).args(&["--set", "io=epoll"]).start();
    assert!(!is_ring(&epoll));
    let ring = Weir::new(HELLO).args(&["--set", "io=ring"]);
    let auto = Weir::new(HELLO).args(&["--set", "io=auto"]).start();
    if is_ring(&auto) {
        let ring = ring.start();
        assert!(is_ring(&ring));
        let count = || ring.metric("weir_ring_operations_total", &[]);
        crate::harness::eventually("operations are counted", || count() >= 2.0);
    } else {
        eprintln!("io_uring is not possible here: {}", auto.stderr());
    }
}

#[test]
fn without_permission_epoll_is_used_or_the_reason_is_said() {
    let auto = without_ring(HELLO).args(&["--set", "io=auto"]).start();
    assert!(!is_ring(&auto));
    let reason = auto.ready["io_reason"].as_str().unwrap_or_default();
    assert!(reason.contains("not permitted"), "{reason}");
    let output = without_ring(HELLO).args(&["--set", "io=ring"]).refused();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(error.contains("`io: ring`") && error.contains("not permitted"), "{error}");
}
