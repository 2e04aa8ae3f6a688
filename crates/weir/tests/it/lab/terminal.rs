//! The live view on a pseudo terminal, as a terminal of the VT100 family shows it.

use super::target::{Response, Target};
use crate::harness::eventually;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A terminal with a command in it, which has the terminal as its controlling one.
struct Terminal {
    keyboard: File,
    /// Keeps the terminal open after the end of the command.
    _inside: File,
    command: Child,
    shown: Arc<Mutex<Shown>>,
}

/// The screen, and all bytes up to now.
struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    fn start(dir: &Path, (width, height): (u16, u16), environment: &[(&str, &str)]) -> Self {
        let outside =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&outside).unwrap();
        unlockpt(&outside).unwrap();
        tcsetwinsize(&outside, size(width, height)).unwrap();
        let name = ptsname(&outside, Vec::new()).unwrap();
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes())).to_owned();
        let flags = OpenptFlags::NOCTTY.bits().cast_signed();
        let inside = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name);
        let inside = inside.unwrap();
        let end = || inside.try_clone().unwrap();
        let command = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_weir"), "lab", "run", "shop.yaml", "--out", "out"])
            .current_dir(dir)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid of util-linux");
        let parser = vt100::Parser::new(cells(height), cells(width), 100);
        let shown = Arc::new(Mutex::new(Shown { parser, bytes: Vec::new() }));
        let keyboard = File::from(outside);
        let (mut output, shared) = (keyboard.try_clone().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let mut shown = shared.lock().unwrap();
                shown.parser.process(&buffer[..count]);
                shown.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Self { keyboard, _inside: inside, command, shown }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap()
    }

    /// Waits for a text on the screen; gives the rows of that moment.
    fn shows(&self, text: &str) -> Vec<String> {
        let mut rows = Vec::new();
        eventually(&format!("`{text}` is shown"), || {
            rows = self.rows();
            rows.iter().any(|row| row.contains(text))
        });
        rows
    }

    fn rows(&self) -> Vec<String> {
        let shown = self.shown();
        let screen = shown.parser.screen();
        screen.rows(0, screen.size().1.get()).collect()
    }

    fn resize(&self, width: u16, height: u16) {
        let mut shown = self.shown();
        tcsetwinsize(&self.keyboard, size(width, height)).unwrap();
        shown.parser.screen_mut().set_size(cells(height), cells(width));
    }

    fn local_modes(&self) -> LocalModes {
        tcgetattr(&self.keyboard).unwrap().local_modes
    }

    fn wait(&mut self) -> Option<i32> {
        let code = self.command.wait().unwrap().code();
        let end = b"report.html\r\n";
        eventually("the result is shown", || self.shown().bytes.ends_with(end));
        code
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

fn size(width: u16, height: u16) -> Winsize {
    Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

fn with(rows: &[String], text: &str) -> usize {
    rows.iter().filter(|row| row.contains(text)).count()
}

/// A scenario of two requests, one of which fails, with names that terminals must not obey.
fn scenario(dir: &Path, seconds: u32) -> Target {
    let target = Target::start(|_, path| match path {
        "/missing" => Response::Status(404, Duration::from_millis(5), "no".to_owned()),
        _ => Response::Text(Duration::from_millis(5), "well".to_owned()),
    });
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\n\
         requests: [{{name: \"a name of thirty characters or more\\e[7m\", get: /}}, \
         {{name: 二つ目, get: /missing}}]\n\
         load: {{executor: constant-vus, vus: 2, duration: {seconds}s}}\n",
        target.addr
    );
    fs::write(dir.join("shop.yaml"), scenario).unwrap();
    target
}

#[test]
fn a_usual_terminal_shows_one_drawing_and_then_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let _target = scenario(dir.path(), 3);
    let mut terminal = Terminal::start(dir.path(), (80, 24), &[("NO_COLOR", "1")]);
    for second in ["1 of 3 s", "2 of 3 s"] {
        let rows = terminal.shows(second);
        assert_eq!((with(&rows, " of 3 s"), with(&rows, "2 users")), (1, 1), "{rows:#?}");
        assert_eq!((with(&rows, "errors: "), with(&rows, "  二つ目  ")), (1, 1), "{rows:#?}");
        assert!(rows[0].starts_with("[####") && with(&rows, "p99 ") == 3, "{rows:#?}");
    }
    terminal.wait();
    let shown = terminal.shown();
    let screen = shown.parser.screen();
    assert!(!screen.hide_cursor() && !screen.alternate_screen() && screen.cursor_position().1 == 0);
    let text = String::from_utf8_lossy(&shown.bytes);
    // Selected graphic renditions end with an m: colours, and what the name of the request has.
    let sequences = text.split("\x1b[").skip(1);
    let ends = sequences.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    assert!(ends.clone().all(|rest| rest.starts_with(['A', 'J'])), "{text:?}");
    assert!(ends.count() > 3);
}

#[test]
fn a_narrow_terminal_that_is_resized_and_interrupted_stays_sane() {
    let dir = tempfile::tempdir().unwrap();
    let _target = scenario(dir.path(), 60);
    let mut terminal = Terminal::start(dir.path(), (40, 12), &[]);
    let modes = terminal.local_modes();
    let rows = terminal.shows("1 of 60 s");
    // No line is divided: each part is in one row.
    assert_eq!((with(&rows, "2 users"), with(&rows, "二つ目")), (1, 1), "{rows:#?}");
    assert!(with(&rows, " ms") == 3 && with(&rows, " errors") == 2, "{rows:#?}");
    terminal.resize(30, 6);
    terminal.shows("3 of 60 s");
    let rows = terminal.shows("4 of 60 s");
    assert_eq!(with(&rows, "4 of 60 s"), 1, "{rows:#?}");
    terminal.resize(100, 30);
    let rows = terminal.shows("6 of 60 s");
    assert_eq!((with(&rows, "6 of 60 s"), with(&rows, "5 of 60 s")), (1, 0), "{rows:#?}");
    (&terminal.keyboard).write_all(b"\x03").unwrap();
    assert_eq!(terminal.wait(), Some(3), "interrupted");
    assert_eq!(terminal.local_modes(), modes);
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG));
    let shown = terminal.shown();
    let screen = shown.parser.screen();
    assert!(!screen.hide_cursor() && !screen.alternate_screen() && screen.cursor_position().1 == 0);
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let dir = tempfile::tempdir().unwrap();
    let _target = scenario(dir.path(), 1);
    let mut terminal = Terminal::start(dir.path(), (80, 24), &[("TERM", "dumb"), ("CI", "true")]);
    terminal.wait();
    assert!(!terminal.shown().bytes.contains(&0x1b));
}
