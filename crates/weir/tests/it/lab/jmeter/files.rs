//! Files whose names are known while a plan runs, compared with JMeter.

use super::compare_text;
use super::elements::{argument, el, get_with, group, item, plan, sampler, variables};
use crate::harness::weir;

fn csv(file: &str, names: &str, share: &str, stop: &str) -> String {
    let properties = [
        ("filename", file),
        ("variableNames", names),
        ("delimiter", ","),
        ("recycle", if stop == "true" { "false" } else { "true" }),
        ("stopThread", stop),
        ("shareMode", share),
    ];
    el("CSVDataSet", "data", &properties, "")
}

fn upload(name: &str, path: &str, parameter: &str, fields: &str) -> String {
    let file = [("File.path", path), ("File.paramname", parameter), ("File.mimetype", "text/x")];
    let properties = [
        ("HTTPSampler.path", if parameter.is_empty() { "/echo" } else { "/parts" }),
        ("HTTPSampler.method", "POST"),
        ("HTTPSampler.use_keepalive", "true"),
    ];
    sampler(name, &properties, (fields, &item("HTTPFileArg", &file)), "")
}

#[test]
fn names_of_data_sets_and_uploads_have_variables() {
    let shows = get_with("rows", "/status/200?${a}-${b}", "");
    let of = |name: &str, data: &str| {
        group(name, "${__P(users)}", "3", &[], &(data.to_owned() + &shows))
    };
    let uploads = csv("parts-${__threadNum}.csv", "a,b", "shareMode.thread", "false")
        + &upload("body", "${b}", "", "")
        + &upload("parts", "${folder}${b}", "f", &argument("x", "${a}", true));
    let groups = [
        of("Own", &csv("parts-${__threadNum}.csv", "a,b", "shareMode.all", "false")),
        of("Own until its end", &csv("parts-${__threadNum}.csv", "a,b", "shareMode.group", "true")),
        of("One of all", &csv("shared-${__intSum(1,0)}.csv", "a,b", "shareMode.all", "true")),
        of("In words", &csv("parts-1.csv", "a,b", "Current thread", "false")),
        group("Uploads", "${__P(users)}", "2", &[], &uploads),
    ];
    let plan = plan(&(variables(&[("folder", "./")]) + &groups.concat()));
    let files: [(&str, &[u8]); 6] = [
        ("shared-1.csv", b"8,a\n9,b\n10,c\n11,d\n"),
        ("parts-1.csv", b"1,sent-1.txt\n2,sent-2.txt\n"),
        ("parts-2.csv", b"3,sent-1.txt\n"),
        ("parts-3.csv", b"4,sent-2.txt\n5,sent-1.txt\n6,sent-1.txt\n7,sent-1.txt\n"),
        ("sent-1.txt", b"first"),
        ("sent-2.txt", b"second \xff"),
    ];
    compare_text("names-of-files", &plan, &files);
}

#[test]
fn files_that_are_missing_while_a_plan_runs_are_named() {
    let run = |below: &str| {
        // Results folders of the same second have the same name.
        let folder = tempfile::tempdir().expect("a folder");
        let text = plan(&group("Users", "1", "1", &[], below));
        std::fs::write(folder.path().join("p.jmx"), text).expect("written");
        let output = weir(folder.path(), &["lab", "run", "--json", "-Jport=1", "p.jmx"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let printed = run(&(csv("no-${__threadNum}.csv", "a", "", "") + &get_with("x", "/", "")));
    assert!(printed.contains("INVALID") && printed.contains("no-1.csv"), "{printed}");
    let printed = run(&upload("body", "no-${__threadNum}.txt", "", ""));
    assert!(printed.contains("\"errors\":1"), "{printed}");
    let without_names = csv("no-${__threadNum}.csv", "", "", "") + &get_with("x", "/", "");
    assert!(run(&without_names).contains("needs `variableNames`"));
}
