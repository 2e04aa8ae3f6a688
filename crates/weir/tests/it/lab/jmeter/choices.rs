//! Transactions in controllers that ignore sub-controller blocks, which take one sample of a branch in
//! each turn; compared with JMeter.

use super::compare_text;
use super::control::{action, fails, if_of, looped, once, simple, transaction};
use super::elements::{el, get, get_with, group, plan};

/// An Interleave or Random Controller that ignores sub-controller blocks.
fn choice(class: &str, across: &str, below: &[String]) -> String {
    let properties =
        [("int:InterleaveControl.style", "0"), ("InterleaveControl.accrossThreads", across)];
    el(class, "choice", &properties, &below.concat())
}

fn interleave(below: &[String]) -> String {
    choice("InterleaveControl", "false", below)
}

/// Labels of a case differ by `kind`, those of transactions with and without parent sample.
fn cases(parent: bool, kind: &str) -> Vec<String> {
    let name = |name: &str| format!("{kind}-{name}");
    let t = |label: &str, below: &str| transaction(&name(label), parent, below);
    let g = |label: &str| get(&name(label));
    let two = |a: &str, b: &str| g(a) + &g(b);
    vec![
        interleave(&[t("plain", &two("a", "b")), g("c")]),
        interleave(&[t("single", &g("a")), g("c"), t("other", &two("d", "e"))]),
        interleave(&[simple(&(g("a") + &t("simple", &two("b", "c")) + &g("d"))), g("e")]),
        interleave(&[looped("l", "2", &t("in-loop", &two("a", "b"))), g("c")]),
        interleave(&[t("around-loop", &(looped("l", "2", &two("a", "b")) + &g("c"))), g("d")]),
        looped("l", "3", &interleave(&[t("looped", &two("a", "b")), g("c")])),
        interleave(&[t("two-a", &g("a")) + &t("two-b", &g("b")), g("c")]),
        interleave(&[t("outer", &(g("a") + &t("inner", &two("b", "c")) + &g("d"))), g("e")]),
        t("around", &(interleave(&[t("turns", &two("a", "b")), g("c")]) + &g("d"))),
        interleave(&[interleave(&[t("nested", &two("a", "b")), g("c")]), g("d")]),
        choice("InterleaveControl", "true", &[t("across", &two("a", "b")), g("c"), g("d")]),
        choice("RandomController", "false", &[t("random-one", &two("a", "b"))]),
        interleave(&[t("failed", &(g("a") + &fails(&name("b")))), g("c")]),
        interleave(&[if_of("true", true, false, &t("if", &two("a", "b"))), g("c")]),
        interleave(&[if_of("true", true, true, &t("if-all", &two("a", "b"))), g("c")]),
        interleave(&[t("once", &(once(&g("a")) + &g("b"))), g("c")]),
        interleave(&[looped("l", "2", &t("next", &(g("a") + &action("4", "0")))), g("c")]),
        interleave(&[looped("l", "2", &t("break", &(g("a") + &action("5", "0")))), g("c")]),
        interleave(&[t("thread", &(g("a") + &action("3", "0") + &g("b"))), g("c")]),
        interleave(&[g("a"), simple(&(g("b") + &fails(&name("c")) + &g("d")))]),
    ]
}

#[test]
fn transactions_take_turns() {
    let mut groups = String::new();
    for (parent, kind) in [(false, "t"), (true, "p")] {
        for (at, below) in cases(parent, kind).iter().enumerate() {
            for (handling, error) in [("on", "continue"), ("next", "startnextloop")] {
                let below = below.replace(&format!("{kind}-"), &format!("{kind}{at}-{handling}-"));
                let name = format!("{kind} {at} {handling}");
                let more = [("ThreadGroup.on_sample_error", error)];
                groups += &group(&name, "${__P(users)}", "11", &more, &below);
            }
        }
    }
    compare_text("turns", &plan(&groups), &[]);
}

#[test]
fn random_turns_of_transactions() {
    // Turns are random: all branches are the same.
    let same = |name: &str| get_with(name, "/status/200?about-random", "");
    let below: String = [(false, "additional"), (true, "parent")]
        .map(|(parent, name)| {
            let sample = format!("sample of {name}");
            let branch = transaction(&format!("about {name}"), parent, &same(&sample).repeat(2));
            choice("RandomController", "false", &[branch.clone(), branch])
        })
        .concat();
    compare_text("random-turns", &plan(&group("G", "${__P(users)}", "60", &[], &below)), &[]);
}
