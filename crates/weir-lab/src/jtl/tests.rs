use super::*;

fn sample() -> Row<'static> {
    Row {
        time_stamp: 1_700_000_000_123,
        elapsed: 45,
        label: "a, b".into(),
        code: "200".into(),
        message: "He said \"OK\"\r\nand left".into(),
        thread: "Users 1-17".into(),
        data_type: "text".into(),
        success: true,
        failure: "".into(),
        bytes: 1_234,
        sent_bytes: 0,
        group_threads: 3,
        all_threads: 4_000_000_000,
        url: "http://127.0.0.1/".into(),
        latency: 44,
        idle: 0,
        connect: u64::MAX,
    }
}

/// A file with these rows.
fn written(rows: &[&Row<'_>]) -> String {
    let mut out = writer::rows();
    rows.iter().for_each(|row| out.serialize(row).expect("memory"));
    HEADER.to_owned() + &String::from_utf8(out.into_inner().expect("memory")).expect("text")
}

fn all(text: &str) -> Result<Vec<Row<'static>>, JtlError> {
    let mut rows = Vec::new();
    read(text.as_bytes(), |row| {
        let owned = |text: &Cow<'_, str>| Cow::Owned(text.to_string());
        rows.push(Row {
            label: owned(&row.label),
            code: owned(&row.code),
            message: owned(&row.message),
            thread: owned(&row.thread),
            data_type: owned(&row.data_type),
            failure: owned(&row.failure),
            url: owned(&row.url),
            ..*row
        });
    })?;
    Ok(rows)
}

#[test]
fn rows_are_written_as_jmeter_writes_them_and_read_back() {
    let other = Row { success: false, failure: "Test failed: text expected".into(), ..sample() };
    let text = written(&[&sample(), &other]);
    assert!(text.contains(
        "1700000000123,45,\"a, b\",200,\"He said \"\"OK\"\"\r\nand left\",Users 1-17,text,true,,\
         1234,0,3,4000000000,http://127.0.0.1/,44,0,18446744073709551615\n"
    ));
    assert_eq!(all(&text).expect("rows"), [sample(), other]);
}

#[test]
fn other_columns_orders_delimiters_and_times_are_read() {
    let text = "label;elapsed;timeStamp;success\nx;7;2023/11/14 22:13:20.123;false\n\
                \"a;\"\"b\";8;2023-11-14 22:13:21;true\n";
    let rows = all(text).expect("rows");
    assert_eq!(rows[0].time_stamp, 1_700_000_000_123);
    assert!(!rows[0].success);
    assert_eq!((rows[1].time_stamp, &*rows[1].label), (1_700_000_001_000, "a;\"b"));
    // Without a column for success, all samples are successful.
    assert!(all("timeStamp,elapsed,label\n1,2,x").expect("rows")[0].success);
    let idle = |text: &str| all(&format!("timeStamp,elapsed,label,IdleTime\n1,2,x,{text}\n"));
    assert_eq!(idle("-1").expect("a row of JMeter")[0].idle, 0);
    assert!(idle("-x").is_err());
}

#[test]
fn invalid_results_files_are_rejected() {
    let refused = |text: &str| all(text).expect_err("refused").to_string();
    assert!(refused("<?xml version=\"1.0\"?>\n").contains("XML"));
    assert!(refused("").contains("`timeStamp`"));
    assert!(refused("timeStamp,label\n").contains("`elapsed`"));
    assert_eq!(refused("timeStamp,elapsed,label\n1,x,a\n"), "line 2: `elapsed` is not a number");
    assert_eq!(
        refused("timeStamp,elapsed,label\n\n1,2\n3,4,b\n"),
        "line 3: 2 values for 3 columns"
    );
    let long = format!("timeStamp,elapsed,label\n1,2,{}\n", "x".repeat(2 << 20));
    assert_eq!(refused(&long), "line 2: longer than a megabyte");
    assert!(refused("timeStamp,elapsed,label\nnever,2,x\n").contains("`timeStamp` is not a time"));
}

#[test]
fn an_incomplete_last_line_is_ignored() {
    assert_eq!(all("timeStamp,elapsed,label\n1,2,a\n3,4").expect("rows").len(), 1);
}

proptest::proptest! {
    #[test]
    fn any_file_is_read_or_rejected(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "timeStamp,elapsed,label", "\n", "\r\n", ",", "\"", "\"\"", "1", "x", "é", "\u{feff}", ";",
        ]), 0..30)
    ) {
        let _ = read(parts.concat().as_bytes(), |_| {});
        let _ = read(format!("timeStamp,elapsed,label\n{}", parts.concat()).as_bytes(), |_| {});
    }

    #[test]
    fn any_row_is_read_as_it_was_written(label in "\\PC*", message in "(?s).{0,20}") {
        let row = Row { label: label.into(), message: message.into(), ..sample() };
        proptest::prop_assert_eq!(all(&written(&[&row])).expect("rows"), [row]);
    }
}
