use super::*;
use std::collections::BTreeMap;

/// Variables and properties in maps.
#[derive(Default)]
pub(crate) struct Maps {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) properties: BTreeMap<String, String>,
}

impl Environment for Maps {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn set_variable(&mut self, name: &str, value: Option<String>) {
        match value {
            Some(value) => self.variables.insert(name.to_owned(), value),
            None => self.variables.remove(name),
        };
    }

    fn property(&self, name: &str) -> Option<String> {
        self.properties.get(name).cloned()
    }

    fn set_property(&mut self, name: &str, value: String) {
        self.properties.insert(name.to_owned(), value);
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone().into_iter().collect()
    }

    fn properties(&self) -> Vec<(String, String)> {
        self.properties.clone().into_iter().collect()
    }

    fn thread_name(&self) -> String {
        "Users 1-2".to_owned()
    }
}

#[test]
fn javascript_gives_the_text_of_its_value() {
    let mut maps = Maps::default();
    maps.set_variable("a", Some("1".to_owned()));
    for (source, expected) in [
        ("1 + 2", "3"),
        ("\"a\" == 'a' && 3 > 2", "true"),
        ("parseInt('7') % 2 == 0", "false"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("undefined", "undefined"),
        ("null", "null"),
        ("var a = [3, 1, 2]; a.sort().join('-')", "1-2-3"),
        ("'abc'.match(/b/)[0]", "b"),
        ("x = 5; x", "5"),
        ("vars.get('a') + vars.get('none')", "1null"),
        ("vars.put('b', 3); vars.get('b')", "3"),
        ("props.put('p', 'q'); threadName", "Users 1-2"),
        ("vars.remove('a')", "1"),
        ("log.info('x'); 1", "1"),
    ] {
        assert_eq!(javascript(source, &mut maps).as_deref(), Ok(expected), "{source}");
    }
    assert_eq!(maps.variable("b").as_deref(), Some("3"));
    assert_eq!((maps.variable("a"), maps.property("p").as_deref()), (None, Some("q")));
    // Another evaluation does not see the variables of the last one.
    assert_eq!(javascript("typeof x", &mut maps).as_deref(), Ok("undefined"));
}

#[test]
fn a_script_cannot_run_away() {
    let mut maps = Maps::default();
    let started = Instant::now();
    for source in [
        "while (true) {}",
        "var a = ['x']; while (true) a.push(a.join())",
        "(function f() { f() })()",
        "nothing.here",
        "if (",
    ] {
        assert!(javascript(source, &mut maps).is_err(), "{source}");
    }
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(javascript("1", &mut maps).as_deref(), Ok("1"));
}

#[test]
fn names_of_java_are_seen() {
    assert_eq!(unsupported_name("java.lang.Math.abs(1)"), Some("java"));
    assert_eq!(unsupported_name("1 + sampler.getName()"), Some("sampler"));
    assert_eq!(unsupported_name("'javascript' + Math.random() + organ"), None);
}
