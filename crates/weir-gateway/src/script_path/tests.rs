use super::*;
use std::os::unix::fs::symlink;

fn root(extensions: &[&str], index: Option<&str>) -> (tempfile::TempDir, ScriptRoot) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("root/sub dir")).unwrap();
    for file in ["root/a.php", "root/sub dir/b.php", "root/index.php", "root/image.png", "out.php"]
    {
        fs::write(base.join(file), "x").unwrap();
    }
    fs::write(base.join("root/.hidden.php"), "x").unwrap();
    fs::write(base.join("root/run"), "x").unwrap();
    fs::set_permissions(base.join("root/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(base.join("out.php"), base.join("root/link.php")).unwrap();
    symlink(base.join("root/a.php"), base.join("root/inner.php")).unwrap();
    let folder = base.join("root");
    let extensions = extensions.iter().map(|&e| e.to_owned()).collect();
    (dir, ScriptRoot { folder, extensions, index: index.map(str::to_owned) })
}

fn found(root: &ScriptRoot, rest: &str) -> Option<(String, String, String)> {
    let found = resolve(root, "/base/", rest)?;
    let file = found.file.unwrap();
    let file = file.strip_prefix(&root.folder).unwrap().display().to_string();
    Some((file, found.name, found.info))
}

#[test]
fn the_path_names_a_file_and_the_rest_is_for_it() {
    let (_dir, root) = root(&["php"], Some("index.php"));
    for (rest, file, name, info) in [
        ("a.php", "a.php", "/base/a.php", ""),
        ("a.php/", "a.php", "/base/a.php", "/"),
        ("a.php/x/y%2fz", "a.php", "/base/a.php", "/x/y%2fz"),
        ("sub%20dir/b.php", "sub dir/b.php", "/base/sub dir/b.php", ""),
        ("", "index.php", "/base/index.php", ""),
        ("inner.php", "a.php", "/base/inner.php", ""),
    ] {
        let expected = Some((file.to_owned(), name.to_owned(), info.to_owned()));
        assert_eq!(found(&root, rest), expected, "{rest}");
    }
}

#[test]
fn nothing_outside_of_the_folder_and_no_other_file_answers() {
    let (_dir, root) = root(&["php"], None);
    for rest in [
        "",
        "gone.php",
        "image.png",
        "image.png/x.php",
        "../out.php",
        "%2e%2e/out.php",
        "..%2fout.php",
        "sub%20dir/..%2f..%2fout.php",
        "sub dir/../../out.php",
        "link.php",
        ".hidden.php",
        "a.php%00.png",
        "a.php/%00",
        "sub%20dir",
        "sub%20dir/",
        "a.PHP",
        "//a.php",
        "sub%20dir//b.php",
        "%ff.php",
        "a%5c.php",
    ] {
        assert_eq!(found(&root, rest), None, "{rest}");
    }
}

#[test]
fn without_endings_a_script_is_what_may_be_executed() {
    let (_dir, root) = root(&[], None);
    assert_eq!(found(&root, "run/x").map(|f| f.2), Some("/x".to_owned()));
    assert_eq!(found(&root, "a.php"), None);
}
