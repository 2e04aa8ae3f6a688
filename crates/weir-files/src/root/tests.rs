use super::super::resource::Lookup;
use super::*;
use std::fs;
use std::path::Path;

fn root(folder: &Path, memory: u64) -> Root {
    let files = Files {
        root: folder.to_owned(),
        file: None,
        index: vec!["index.html".to_owned()],
        fallback: None,
        precompressed: true,
        dot_files: false,
        cache_control: None,
        types: Vec::new(),
        memory,
    };
    Root::new(&files, 1)
}

async fn file(root: &Root, path: &str) -> Option<Arc<Resource>> {
    match root.find(path, path.as_bytes().to_vec()).await.unwrap() {
        Lookup::File(resource) => Some(resource),
        Lookup::Folder | Lookup::NotFound => None,
    }
}

/// A runtime as a worker has it.
fn run(test: impl AsyncFnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(test(folder.path()));
}

#[test]
fn what_was_found_is_remembered_for_a_moment() {
    run(async |folder| {
        fs::write(folder.join("a"), "one").unwrap();
        let root = root(folder, 1 << 20);
        let begun = clock::now();
        let first = file(&root, "a").await.unwrap();
        let recent = root.recent("a", begun).unwrap();
        assert!(Arc::ptr_eq(&first, &recent));
        assert!(root.recent("b", begun).is_none());
        assert!(root.recent("a", clock::now() + VALID_FOR).is_none(), "no longer than that");
        let second = file(&root, "a").await.unwrap();
        assert!(Arc::ptr_eq(&first.plain, &second.plain), "nothing is read twice");
        fs::write(folder.join("new"), "second").unwrap();
        fs::rename(folder.join("new"), folder.join("a")).unwrap();
        let changed = file(&root, "a").await.unwrap();
        assert_eq!(changed.plain.in_memory().map(|b| &b[..]), Some(&b"second"[..]));
        assert_ne!(changed.plain.tag, first.plain.tag);
        fs::remove_file(folder.join("a")).unwrap();
        assert!(file(&root, "a").await.is_none());
        assert!(root.recent("a", begun).is_none());
    });
}

#[test]
fn memory_and_open_files_are_bounded_and_what_is_used_stays() {
    run(async |folder| {
        let memory = 64 * 1024;
        let begun = clock::now();
        let root = root(folder, memory);
        for number in 0..100 {
            fs::write(folder.join(format!("{number}")), vec![b'a'; 4096]).unwrap();
            file(&root, &number.to_string()).await.unwrap();
            root.recent("0", begun).expect("what is used stays");
            assert!(root.bytes.get() as u64 <= memory, "{}", root.bytes.get());
        }
        {
            let entries = root.entries.borrow();
            assert_eq!(root.bytes.get(), entries.values().map(|e| e.bytes).sum::<usize>());
            assert!(entries.contains_key("99"));
            assert!((4..16).contains(&entries.len()), "{}", entries.len());
        }
        for number in 0..2 * MAX_OPEN {
            let large = fs::File::create(folder.join(format!("large{number}"))).unwrap();
            large.set_len(100_000).unwrap();
            file(&root, &format!("large{number}")).await.unwrap();
            assert!(root.open.get() <= MAX_OPEN);
        }
    });
}

#[test]
fn without_memory_nothing_is_remembered() {
    run(async |folder| {
        fs::write(folder.join("a"), "one").unwrap();
        let root = root(folder, 0);
        let begun = clock::now();
        assert!(file(&root, "a").await.is_some());
        assert!(root.recent("a", begun).is_none());
        assert_eq!((root.bytes.get(), root.open.get()), (0, 0));
    });
}

#[test]
fn an_open_file_that_is_cut_off_is_looked_for_again() {
    run(async |folder| {
        let large = fs::File::create(folder.join("a")).unwrap();
        large.set_len(100_000).unwrap();
        let root = root(folder, 1 << 20);
        let begun = clock::now();
        assert_eq!(file(&root, "a").await.unwrap().plain.length(), 100_000);
        assert!(root.recent("a", begun).is_some());
        large.set_len(99_999).unwrap();
        assert!(root.recent("a", begun).is_none());
        assert_eq!(file(&root, "a").await.unwrap().plain.length(), 99_999);
    });
}

#[test]
fn siblings_stand_for_a_file_unless_they_are_of_an_earlier_one() {
    run(async |folder| {
        let coded = async |root: &Root| {
            let found = file(root, "a.js").await.unwrap();
            found.coded.each_ref().map(Option::is_some)
        };
        let root = root(folder, 1 << 20);
        for name in ["a.js", "a.js.br", "a.js.gz"] {
            fs::write(folder.join(name), name).unwrap();
        }
        fs::create_dir(folder.join("a.js.zst")).unwrap();
        assert_eq!(coded(&root).await, [true, false, true]);
        let old = std::time::SystemTime::now() - Duration::from_secs(3600);
        let gz = fs::File::options().write(true).open(folder.join("a.js.gz")).unwrap();
        gz.set_modified(old).unwrap();
        assert_eq!(coded(&root).await, [true, false, false]);
    });
}
