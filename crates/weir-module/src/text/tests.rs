use super::*;

fn parse(text: &str) -> Module {
    Module::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
}

fn exports(text: &str) -> Vec<String> {
    parse(text).exports.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn every_form_of_export_is_found() {
    assert_eq!(exports("export default 1"), ["default"]);
    assert_eq!(exports("export default async function f() {}"), ["default"]);
    assert_eq!(exports("export default function () {}\n(1)"), ["default"]);
    assert_eq!(exports("export default class extends Array {}"), ["default"]);
    assert_eq!(exports("export default async (request) => 1;"), ["default"]);
    assert_eq!(
        exports("export function GET() {}\nexport async function POST() {}"),
        ["GET", "POST"]
    );
    assert_eq!(exports("export function* a() {}; export class B {}"), ["B", "a"]);
    assert_eq!(
        exports("export const a = [1, 2].map((x) => x, 2), b = {c, d}\nlet e, f"),
        ["a", "b"]
    );
    assert_eq!(exports("export const GET = (r) => {\n return 1, 2\n}\nfoo, bar"), ["GET"]);
    assert_eq!(
        exports("const a = 1, b = 2; export { a, b as c, a as default }"),
        ["a", "c", "default"]
    );
    assert_eq!(exports("export * as x from './y.js'; export { z } from './y.js'"), ["x", "z"]);
}

#[test]
fn what_is_no_declaration_is_left_alone() {
    for text in [
        "const s = 'export default 1', t = `import ${ `export ${1}` } x`;",
        "// export default 1\n/* import x from 'y' */",
        "const r = /export default \"/g, q = a / b / c; x.export; y = { import: 1 };",
        "if (a) /export '/.test(b);\nfor (;;) { /import [/'\"]/.test(c) }",
        "const f = () => { return /`/ };\nconst o = {} / 2; i++ / 2;",
    ] {
        let module = parse(text);
        assert_eq!((module.body.as_str(), module.exports.len()), (text, 0));
        assert!(module.imports.is_empty());
    }
}

#[test]
fn lines_stay_where_they_are() {
    let text =
        "import a, {\n b as c,\n d\n} from './x.js'\nexport\nconst e = 1\nexport default\n  2\n";
    let module = parse(text);
    assert_eq!(module.body.matches('\n').count(), text.matches('\n').count());
    assert_eq!(module.imports.len(), 1);
    assert_eq!(module.imports[0].specifier, "./x.js");
    let factory = module.factory(&[3]);
    assert!(
        factory.contains("const {\"default\": a, \"b\": c, \"d\": d} = __weir_load(3);"),
        "{factory}"
    );
}

#[test]
fn what_cannot_be_had_is_said_with_its_line() {
    let fault = |text: &str| Module::parse(text).expect_err(text);
    assert_eq!(fault("\nconst x = import('./y.js')").line, 2);
    assert_eq!(fault("export const {a} = b").message, "export names, not a pattern");
    assert_eq!(fault("export default 1\nexport default 2").message, "`default` is exported twice");
    for text in
        ["}", "(", "`${", "'a", "/* ", "export", "import", "import {", "export {a", "x = /[/"]
    {
        fault(text);
    }
    fault(&"(".repeat(100_000));
    fault(&"`${".repeat(10_000));
}
