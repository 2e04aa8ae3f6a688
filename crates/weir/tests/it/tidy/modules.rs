//! Imports between the top-level modules of each crate, and how large the code is.
//!
//! `make structure` prints the table.

use super::code::{Source, code, each_level, is_punct, name, sources};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Modules that may import each other, by crate: the size of the largest cycle, and why.
const CYCLES: [(&str, usize, &str); 0] = [];

/// Lines of the longest function that passes.
const MAX_FUNCTION_LINES: usize = 80;

/// Functions that are longer, each with the reason. The aim is none.
const LONG_FUNCTIONS: [(&str, &str); 0] = [];

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Top-level modules of a crate and what they import from each other.
fn edges(files: &[&Source]) -> Edges {
    let mut edges: Edges =
        files.iter().filter_map(|f| Some((f.module.first()?.clone(), BTreeSet::new()))).collect();
    let exported: BTreeMap<String, String> = (files.iter())
        .filter(|file| file.module.is_empty())
        .flat_map(|root| exports(root, &edges))
        .collect();
    for file in files {
        let Some(own) = file.module.first() else { continue };
        for path in imports(file) {
            let Some(first) = path.first() else { continue };
            let module = if edges.contains_key(first) { Some(first) } else { exported.get(first) };
            if let Some(module) = module.cloned().filter(|module| module != own)
                && let Some(imported) = edges.get_mut(own)
            {
                imported.insert(module);
            }
        }
    }
    edges
}

/// Names that the root of a crate exports, with their modules.
fn exports(root: &Source, modules: &Edges) -> Vec<(String, String)> {
    let tokens: Vec<TokenTree> = root.tokens.clone().into_iter().collect();
    let uses = tokens.iter().enumerate().filter(|(_, t)| name(t).is_some_and(|n| n == "use"));
    uses.flat_map(|(at, _)| tree(&tokens[at + 1..]))
        .filter_map(|path| {
            let path: Vec<_> = path.into_iter().filter(|p| p != "crate" && p != "self").collect();
            let module = path.first().filter(|module| modules.contains_key(*module))?.clone();
            Some((path.last()?.clone(), module))
        })
        .collect()
}

/// Paths of the crate that a file names, from the crate's root.
fn imports(file: &Source) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    each_level(&file.tokens, &mut |level| {
        for (at, token) in level.iter().enumerate() {
            let is_start = at == 0 || !is_punct(&level[at - 1], ':');
            let start = name(token).filter(|name| name == "crate" || name == "super");
            if start.is_some() && is_start {
                found.extend(tree(&level[at..]).into_iter().filter_map(|p| absolute(file, &p)));
            }
        }
    });
    found
}

/// A path that starts with `crate` or `super` from the root of the crate; none for one that stays
/// inside of the module's own folder.
fn absolute(file: &Source, path: &[String]) -> Option<Vec<String>> {
    let up = path.iter().take_while(|part| *part == "super").count();
    let rest = match path.first()?.as_str() {
        "crate" => &path[1..],
        _ if up == file.module.len() => &path[up..],
        _ => return None,
    };
    Some(rest.to_vec())
}

/// The paths that start at the first token: `a::{b, c::d}` gives `a::b` and `a::c::d`.
fn tree(tokens: &[TokenTree]) -> Vec<Vec<String>> {
    let mut path = Vec::new();
    let mut at = 0;
    loop {
        match tokens.get(at) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace && at > 0 => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                return inner
                    .split(|token| is_punct(token, ','))
                    .flat_map(tree)
                    .map(|rest| path.iter().cloned().chain(rest).collect())
                    .collect();
            }
            Some(token) => match name(token) {
                Some(part) => path.push(part),
                None => break,
            },
            None => break,
        }
        let is_separated = |at: usize| tokens.get(at).is_some_and(|token| is_punct(token, ':'));
        if !(is_separated(at + 1) && is_separated(at + 2)) {
            break;
        }
        at += 3;
    }
    if path.is_empty() { Vec::new() } else { vec![path] }
}

/// Modules that `from` imports, directly or through others.
fn reach(edges: &Edges, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(module) = open.pop() {
        for next in edges.get(&module).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    found
}

/// The largest set of modules each of which reaches each of the others.
fn largest_cycle(edges: &Edges) -> BTreeSet<String> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|module| (module, reach(edges, module))).collect();
    let of = |module: &String| -> BTreeSet<String> {
        let both =
            |other: &&String| reached[module].contains(*other) && reached[*other].contains(module);
        edges.keys().filter(both).cloned().collect()
    };
    edges.keys().map(of).max_by_key(BTreeSet::len).unwrap_or_default()
}

/// Functions of a file by name with their lines, signature included.
fn functions(file: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    each_level(&file.tokens, &mut |level| {
        for (at, token) in level.iter().enumerate() {
            if name(token).is_none_or(|name| name != "fn") {
                continue;
            }
            let body = level[at..].iter().find(|token| {
                is_punct(token, ';')
                    || matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
            });
            if let (Some(TokenTree::Group(body)), Some(called)) =
                (body, level.get(at + 1).and_then(name))
            {
                let lines = body.span_close().end().line + 1 - token.span().start().line;
                found.push((lines, called));
            }
        }
    });
    found
}

/// Names of the structs and enums of a file.
fn types(file: &Source) -> Vec<String> {
    let mut found = Vec::new();
    each_level(&file.tokens, &mut |level| {
        let defines = |t: &[TokenTree]| name(&t[0]).is_some_and(|n| n == "struct" || n == "enum");
        found.extend(level.windows(2).filter(|pair| defines(pair)).filter_map(|p| name(&p[1])));
    });
    found
}

/// Functions of a file that take a type of this name, itself or by reference.
fn takers(file: &Source, called: &str) -> usize {
    let mut count = 0;
    each_level(&file.tokens, &mut |level| {
        for (at, _) in level.iter().enumerate().filter(|(_, t)| name(t).is_some_and(|n| n == "fn"))
        {
            let parameters = level[at..].iter().find_map(|token| match token {
                TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis => Some(g.stream()),
                _ => None,
            });
            let takes = |token: TokenTree| name(&token).is_some_and(|name| name == called);
            count += usize::from(parameters.into_iter().flatten().any(takes));
        }
    });
    count
}

/// Prints the names that several types share, and what takes the whole exchange.
fn print_shared_names(all: &[Source]) {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for name in all.iter().flat_map(types) {
        *places.entry(name).or_default() += 1;
    }
    let mut places: Vec<(usize, String)> = places.into_iter().map(|(name, n)| (n, name)).collect();
    places.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let shared: Vec<String> =
        places.iter().take(12).map(|(count, name)| format!("{name} {count}")).collect();
    println!("names of several types: {}", shared.join(", "));
    let (functions, files) = (all.iter())
        .map(|file| takers(file, "Exchange"))
        .filter(|count| *count > 0)
        .fold((0, 0), |(functions, files), count| (functions + count, files + 1));
    println!("functions that take Exchange: {functions} in {files} files");
}

/// Functions of a file that are too long and not excused.
fn long_functions(file: &Source) -> Vec<String> {
    let too_long = |(lines, called): &(usize, String)| {
        let is_excused = |(path, name): &&(&str, &str)| *path == file.path && name == called;
        *lines > MAX_FUNCTION_LINES && !LONG_FUNCTIONS.iter().any(|row| is_excused(&row))
    };
    (functions(file).into_iter().filter(too_long))
        .map(|(lines, called)| format!("{}: `{called}` has {lines} lines; cut it", file.path))
        .collect()
}

/// Source files by crate.
fn by_crate(all: &[Source]) -> BTreeMap<&str, Vec<&Source>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for file in all {
        crates.entry(&file.package).or_default().push(file);
    }
    crates
}

#[test]
fn modules_import_one_way() {
    let all = sources();
    let mut table = String::new();
    let mut total = 0;
    let mut problems = Vec::new();
    for (package, files) in by_crate(&all) {
        let edges = edges(&files);
        let cycle = largest_cycle(&edges);
        let names: Vec<&str> = cycle.iter().map(String::as_str).collect();
        let lines: usize = files.iter().map(|file| file.lines).sum();
        total += lines;
        let longest = files.iter().flat_map(|file| functions(file)).max().unwrap_or_default();
        table += &format!(
            "{package:14}{:>9}{:>9}{lines:>9}{:>9} {}\n",
            edges.len(),
            cycle.len(),
            longest.0,
            longest.1
        );
        for file in &files {
            problems.extend(long_functions(file));
        }
        let allowed = CYCLES.iter().find(|(name, ..)| *name == package).map_or(0, |row| row.1);
        if cycle.len() > allowed {
            let names = names.join(", ");
            problems.push(format!("{package}: {} modules import each other: {names}", cycle.len()));
        }
    }
    let head = ["modules", "cycle", "lines", "longest function"];
    println!("{:14}{:>9}{:>9}{:>9}  {}", "crate", head[0], head[1], head[2], head[3]);
    println!("{table}{:14}{:>9}{:>9}{total:>9}", "all", "", "");
    print_shared_names(&all);
    super::assert_none(&problems);
}

#[test]
fn an_import_cycle_is_seen() {
    let source = |module: &str, text: &str| Source {
        package: "p".to_owned(),
        path: String::new(),
        module: module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        lines: 1,
        tokens: code(text),
    };
    let cycle = |files: &[Source]| largest_cycle(&edges(&files.iter().collect::<Vec<_>>())).len();
    let root = "mod a; mod b; pub use b::{Deep, other::Name};";
    assert_eq!(cycle(&[source("", root), source("a", ""), source("b", "use crate::a::X;")]), 0);
    let both = |a: &str, b: &str| cycle(&[source("", root), source("a", a), source("b::c", b)]);
    assert_eq!(both("use crate::b;", "fn f() { crate::a::g() }"), 2);
    assert_eq!(both("use crate::{x, Name};", "use super::super::a::X;"), 2);
    assert_eq!(both("use crate::Deep;", "use crate::{c::{d, e}, a::{self, X}};"), 2);
    assert_eq!(both("use crate::b;", "#[cfg(test)] mod tests { use crate::a::X; }"), 0);
    assert_eq!(both("use crate::b;", "use super::d; // crate::a"), 0);
}

#[test]
fn functions_are_measured() {
    let tokens = code("trait T { fn a(); }\nfn b() -> X\n{\n  c();\n}\n");
    let file = Source {
        package: String::new(),
        path: String::new(),
        module: Vec::new(),
        lines: 5,
        tokens,
    };
    assert_eq!(functions(&file), [(4, "b".to_owned())]);
}
