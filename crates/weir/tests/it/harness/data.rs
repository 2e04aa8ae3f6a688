//! What is in a data folder, and disks of its own for one.

use super::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_journal::{Journal, Position, Settings, Transaction};

/// Everything in the journal of a data folder that no weir is using, in the order of receipt.
/// Recovers it first.
pub(crate) fn transactions(data: &Path) -> Vec<Transaction> {
    let mut all = Vec::new();
    each_transaction(data, |transaction| all.push(transaction));
    all.sort_by_key(|transaction| transaction.received_us);
    all
}

/// The same one by one, lane by lane.
pub(crate) fn each_transaction(data: &Path, mut seen: impl FnMut(Transaction)) {
    let settings = Settings { lanes: 0, ..Settings::default() };
    let (journal, _, _) = Journal::open(data, settings).expect("a journal");
    for lane in 0..journal.lanes() {
        let mut reader = journal.reader(lane, Position::START);
        while let Some(transaction) = reader.next_transaction().expect("readable") {
            seen(transaction);
        }
    }
}

/// The id of a transaction as clients get it.
pub(crate) fn id_of(transaction: &Transaction) -> String {
    uuid::Uuid::from_bytes(transaction.id).to_string()
}

/// All regular files below a folder: the control socket of a running weir cannot be read.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.path().is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// A file system of its own, unmounted when dropped. Only root may mount one.
pub(crate) struct Disk {
    folder: tempfile::TempDir,
    mounted: bool,
}

impl Disk {
    /// In memory, with so many MiB. None where nothing may be mounted; says so.
    pub(crate) fn small(mib: u32) -> Option<Self> {
        let disk = Self::nowhere();
        let size = format!("size={mib}m");
        disk.mount(&["-t", "tmpfs", "-o", &size, "tmpfs"])
    }

    /// An ext4 in a file of so many MiB. None where there are no loop devices; says so.
    pub(crate) fn ext4(mib: u64) -> Option<Self> {
        Self::ext4_with(mib, &[])
    }

    fn ext4_with(mib: u64, more: &[&str]) -> Option<Self> {
        let disk = Self::nowhere();
        let image = disk.folder.path().with_extension("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("an image");
        let image = image.to_str().expect("UTF-8").to_owned();
        let made = command("mkfs.ext4", &[&["-q", "-F"], more, &[&image]].concat());
        if !made.is_some_and(|output| output.status.success()) {
            eprintln!("skipped: there is no mkfs.ext4");
            return None;
        }
        let mounted = disk.mount(&["-o", "loop,errors=remount-ro", &image]);
        // As long as it is mounted, the file is there without its name.
        std::fs::remove_file(image).expect("the image is ours");
        mounted
    }

    /// An ext4 with blocks that are smaller than a page. None where there are no loop devices.
    pub(crate) fn ext4_of_small_blocks(mib: u64) -> Option<Self> {
        Self::ext4_with(mib, &["-b", "1024"])
    }

    /// Leaves so many KiB free, and no more.
    pub(crate) fn leave(&self, kib: u64) {
        use std::io::Write;
        let ballast = self.path().join("ballast");
        let mut file = std::fs::File::create(&ballast).expect("a file");
        let mut written = 0_u64;
        for piece in [1 << 20, 64 << 10, 1 << 10] {
            let bytes = vec![1; piece];
            while file.write_all(&bytes).is_ok() {
                written += piece as u64;
                file.sync_data().expect("what was taken is written");
            }
            file.set_len(written).expect("it can be cut off");
            std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(written)).expect("a file");
        }
        file.set_len(written.saturating_sub(kib << 10)).expect("it can be cut off");
        file.sync_all().expect("it is written");
    }

    fn nowhere() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), mounted: false }
    }

    fn mount(mut self, args: &[&str]) -> Option<Self> {
        let folder = self.path().to_str().expect("UTF-8").to_owned();
        let mounted = command("mount", &[args, &[&folder]].concat());
        self.mounted = mounted.is_some_and(|output| output.status.success());
        if !self.mounted {
            eprintln!("skipped: this user may not mount a disk");
        }
        self.mounted.then_some(self)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder on it, as an argument of `weir serve`.
    pub(crate) fn data(&self) -> String {
        self.path().join("data").to_str().expect("UTF-8").to_owned()
    }

    /// Lets an ext4 find an error in itself, so that it becomes read-only at once.
    pub(crate) fn make_read_only(&self) {
        let found = command("findmnt", &["-no", "SOURCE", self.path().to_str().expect("UTF-8")]);
        let device = String::from_utf8(found.expect("findmnt").stdout).expect("UTF-8");
        let name = device.trim().trim_start_matches("/dev/");
        let trigger = format!("/sys/fs/ext4/{name}/trigger_fs_error");
        std::fs::write(trigger, "weir's tests").expect("it can be told");
    }

    /// Lets every access to an ext4 fail from now on.
    pub(crate) fn break_down(&self) {
        // EXT4_IOC_SHUTDOWN, without writing its log.
        let script = "import fcntl, os, struct, sys\n\
            folder = os.open(sys.argv[1], os.O_RDONLY)\n\
            fcntl.ioctl(folder, 0x8004587D, struct.pack('I', 2))";
        let folder = self.path().to_str().expect("UTF-8");
        let done = command("python3", &["-c", script, folder]);
        assert!(done.is_some_and(|output| output.status.success()), "it goes on");
    }

    /// Takes so many MiB away, or gives them back with 0.
    pub(crate) fn fill(&self, mib: usize) {
        let ballast = self.path().join("ballast");
        if mib == 0 {
            std::fs::remove_file(ballast).expect("it is there");
        } else {
            std::fs::write(ballast, vec![1; mib << 20]).expect("there is room for it");
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !self.mounted {
            return;
        }
        let folder = self.path().to_str().expect("UTF-8").to_owned();
        let unmounted = command("umount", &["-l", &folder]);
        assert!(
            unmounted.is_some_and(|output| output.status.success()),
            "{folder} is still mounted"
        );
    }
}

fn command(name: &str, args: &[&str]) -> Option<Output> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    Command::new(name).args(args).env("PATH", path).output().ok()
}

impl Server {
    /// Memory of its own that it has resident now, in KiB.
    pub(crate) fn anonymous_memory(&self) -> u64 {
        self.memory("RssAnon:")
    }

    /// Memory of its own that it has resident before what a test does to it, in KiB: threads that
    /// start with it take up to 6 MiB in the half second after its first response.
    pub(crate) fn anonymous_memory_at_rest(&self) -> u64 {
        let mut memory = self.anonymous_memory();
        loop {
            std::thread::sleep(std::time::Duration::from_millis(300));
            let now = self.anonymous_memory();
            if now <= memory + 64 {
                return now;
            }
            memory = now;
        }
    }
}

/// Text that cannot be compressed by more than a quarter. Each of its characters costs a test as little as
/// a debug build allows.
pub(crate) fn incompressible(length: usize) -> String {
    let mut bytes = vec![0; length];
    fastrand::fill(&mut bytes);
    bytes.iter_mut().for_each(|byte| *byte = b'0' + (*byte & 63));
    String::from_utf8(bytes).expect("ASCII")
}
