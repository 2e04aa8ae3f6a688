//! The short form of fuzzing: every target over its seeds and some seconds of random changes.

use std::path::Path;
use std::time::Duration;
use weir_fuzz::{TARGETS, mutations};

/// Time of a target; the same seed of the changes finds the same.
const TIME: Duration = Duration::from_secs(5);

fn holds(name: &str) {
    let (_, check) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let seeds = mutations::seeds(&folder).expect("readable seeds");
    assert!(!seeds.is_empty(), "{name} has no seeds");
    match mutations::run(*check, &seeds, TIME, mutations::random_seed()) {
        Ok(runs) => println!("{name}: {runs} inputs from {} seeds", seeds.len()),
        Err(input) => panic!("{name}: {:?}", String::from_utf8_lossy(&input)),
    }
}

macro_rules! targets {
    ($($name:ident),*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*
    };
}

targets!(requests, answers, agents, paths, configuration, map, validation);

#[test]
fn every_target_is_tested() {
    let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(known, TESTED);
}

#[test]
fn an_input_that_fails_is_found() {
    let check = |input: &[u8]| assert!(!input.contains(&b'!'), "an exclamation mark");
    let failed = mutations::run(check, &[b"a!b".to_vec()], TIME, 1);
    assert_eq!(failed, Err(b"a!b".to_vec()));
    let failed = mutations::run(check, &[b"a b".to_vec()], Duration::from_secs(60), 1);
    assert!(failed.expect_err("a change has the byte").contains(&b'!'));
}
