//! `journal.durability: disk`: no answer is whole before its record is on the disk.
//!
//! A segment's file is replaced by a pipe that nobody writes to: syncing waits when it opens that,
//! until somebody does, and then fails, as a pipe cannot be synced. What is appended goes to the
//! file itself, which stays mapped.

use crate::harness::{self, Server, Weir, eventually};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Long enough for an answer that does not wait.
const MOMENT: Duration = Duration::from_millis(300);

fn start(echo: &Server, when_full: &str) -> Server {
    let weir = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true, index: none}}\n\
         journal: {{durability: disk, when_full: {when_full}}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      \
         - {{get: /hosted, reply: {{text: hosted}}}}\n      \
         - {{get: /empty, reply: {{status: 204}}}}\n      \
         - {{get: /quiet, capture: none, reply: {{text: quiet}}}}\n      \
         - {{path: /proxied, proxy: echo}}\n",
        echo.listen[0],
    ))
    .start();
    // The disk is fast enough as long as it works.
    assert_eq!(weir.connect().get("/hosted").text(), "hosted");
    assert_eq!(weir.connect().post("/proxied", "{}").text(), "{}");
    weir
}

/// The disk, made to hang.
struct Hanging {
    segment: PathBuf,
}

impl Hanging {
    fn new(weir: &Server) -> Self {
        let lane = weir.dir().join("data/journal/lane-0000");
        let entries = std::fs::read_dir(lane).expect("a lane").flatten().map(|entry| entry.path());
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "segment");
        let segment = entries.filter(is_segment).min().expect("a segment");
        std::fs::rename(&segment, segment.with_extension("held")).expect("renamed");
        let made = Command::new("mkfifo").arg(&segment).status();
        assert!(made.is_ok_and(|status| status.success()), "a pipe");
        Self { segment }
    }

    /// Lets the sync that hangs go on to fail, and all later ones succeed.
    fn end(self) {
        let pipe = self.segment.with_extension("pipe");
        std::fs::rename(&self.segment, &pipe).expect("renamed");
        std::fs::rename(self.segment.with_extension("held"), &self.segment).expect("renamed");
        // Opening waits until the other end is opened, too.
        drop(std::fs::File::options().write(true).open(pipe).expect("the other end"));
    }
}

/// Clients that each ask for something that is recorded; what they get comes through the channel.
fn ask(weir: &Server) -> (mpsc::Receiver<String>, usize) {
    let (sender, responses) = mpsc::channel();
    for path in ["/hosted", "/empty", "/proxied"] {
        let (sender, addr) = (sender.clone(), weir.listen[0]);
        std::thread::spawn(move || {
            let mut client = harness::Client::connect(addr);
            let response = client.try_get(path).map_or("none".to_owned(), |a| a.status.to_string());
            let _ = sender.send(response);
        });
    }
    for path in ["/hosted", "/empty"] {
        let (sender, url) = (sender.clone(), weir.url(path));
        std::thread::spawn(move || {
            let args = ["-s", "--http2-prior-knowledge", "-m", "60", "-o", "/dev/null", "-w"];
            let mut command = Command::new("curl");
            command.args(args).args(["%{exitcode} %{http_code}", &url]).stderr(Stdio::null());
            let output = command.output().expect("curl runs");
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            // curl has its answer once the stream has ended well.
            let response = told.strip_prefix("0 ").unwrap_or("none").to_owned();
            let _ = sender.send(response);
        });
    }
    (responses, 5)
}

#[test]
fn a_response_waits_for_the_disk_and_others_do_not() {
    let echo = harness::echo(&[]);
    let weir = start(&echo, "shed");
    let disk = Hanging::new(&weir);
    let (responses, count) = ask(&weir);
    std::thread::sleep(MOMENT);
    assert_eq!(responses.try_recv().ok(), None, "an answer whose record is not on the disk");
    // The same worker serves what is not recorded, and more of what will have to wait.
    assert_eq!(weir.connect().get("/quiet").text(), "quiet");
    assert_eq!(responses.recv_timeout(MOMENT).ok(), None);
    disk.end();
    let mut got: Vec<String> =
        (0..count).map(|_| responses.recv_timeout(harness::PATIENCE).expect("an answer")).collect();
    got.sort();
    assert_eq!(got, ["200", "200", "200", "204", "204"], "without a record, which is counted");
    assert!(weir.metric("weir_unrecorded_total", &[]) >= 1.0);
    eventually("the disk works again", || {
        let before = weir.metric("weir_unrecorded_total", &[]);
        let response = weir.connect().get("/hosted");
        response.status == 200 && weir.metric("weir_unrecorded_total", &[]) == before
    });
}

#[test]
fn a_response_is_aborted_if_the_disk_fails_and_records_are_required() {
    let echo = harness::echo(&[]);
    let weir = start(&echo, "refuse");
    let disk = Hanging::new(&weir);
    let mut client = weir.connect();
    client.send("GET /hosted HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(MOMENT);
    disk.end();
    assert!(client.is_closed(), "not a byte of an answer without a record");
    eventually("the disk works again", || weir.connect().try_get("/hosted").is_some());
}
