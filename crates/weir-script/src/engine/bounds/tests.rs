use super::super::Engine;
use crate::call::{End, Request, ScriptBody};
use crate::engine::DEFAULT_MEMORY;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;
use weir_module::{Program, Settings};

/// The `cpu` limit of these calls, and the longest time that one may take in fact: the limit, one
/// piece of work that cannot be interrupted, and a slow machine.
const CPU: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(4);

fn engine(text: &str, cpu: Duration) -> Engine {
    let settings = Settings { shared: false, config: "null".to_owned(), cpu, indent: 0 };
    let program = Program::load("a.js", settings, &mut |_| Ok(text.to_owned()))
        .unwrap_or_else(|fault| panic!("{fault}: {text}"));
    Engine::new(&[Arc::new(program)], DEFAULT_MEMORY).expect("an engine")
}

fn evaluate(expression: &str) -> String {
    let text = format!("export default () => ({expression})");
    let mut engine = engine(&text, Duration::from_secs(20));
    match engine.start(0, 0, Request::default()).end {
        Some(End::Response(answer)) => match answer.body {
            ScriptBody::Value(json) => String::from_utf8(json).expect("a text"),
            other => panic!("{expression}: {other:?}"),
        },
        other => panic!("{expression}: {other:?}"),
    }
}

fn time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// What is called again and again, on the largest inputs that there is memory for.
const HOSTILE: &[&str] = &[
    "s.includes('b')",
    "s.includes(half)",
    "s.indexOf(half)",
    "s.lastIndexOf(behind)",
    "s.split(half)",
    "s.split('')",
    "s.split('b')",
    "s.replace(half, '')",
    "s.replaceAll(half, '')",
    "s.replaceAll('a', '')",
    "s.startsWith(s)",
    "s.endsWith(s)",
    "s.slice(1)",
    "s.trim()",
    "s.concat(s)",
    "s.toUpperCase()",
    "s.normalize('NFD')",
    "marks.normalize('NFD')",
    "marks.localeCompare('a')",
    "s.padEnd(1e7)",
    "s.repeat(2)",
    "s.match(/a*b/)",
    "s.match(/a/g)",
    "s.replace(/b|c/g, '')",
    "s.replace(/a/g, 'b')",
    "s.search(/[^a]/)",
    "s.split(/b/)",
    "s.split(/(?:)/)",
    "[...s.matchAll(/a/g)]",
    "/(a*)\\1b/.test(s)",
    "/(a*)\\1b/.test(s.slice(0, 32768))",
    "/(a*)*b/.test(s)",
    "/(?<=a*)b/.test(s)",
    "/a{1,30}b/.test('aaaaaaaaaaaaaaaaaaaaa')",
    "new RegExp(s)",
    "s.match(s)",
    "new RegExp('\\\\k<a>'.repeat(3000))",
    "new RegExp('[^x]'.repeat(250), 'iu')",
    "new RegExp('\\\\p{L}'.repeat(250), 'iu')",
    "JSON.parse('[' + '[],'.repeat(1e5) + '1]')",
    "JSON.parse(' '.repeat(4e6) + '1')",
    "JSON.stringify(s)",
    "JSON.stringify(numbers)",
    "encodeURIComponent(s)",
    "escape(s)",
    "parseFloat('1'.repeat(1e6))",
    "Number('1'.repeat(1e6))",
    "BigInt('1'.repeat(300000))",
    "BigInt('1'.repeat(20000))",
    "(1n << 1000000n).toString()",
    "(1n << 65000n).toString()",
    "sparse.includes(1)",
    "sparse.indexOf(1)",
    "sparse.forEach(() => {})",
    "sparse.join('')",
    "sparse.sort()",
    "sparse.reverse()",
    "sparse.flat()",
    "sparse.concat([1])",
    "new Set(sparse)",
    "sparse.values().drop(4e9).next()",
    "sparse.values().filter(Boolean).next()",
    "sparse.values().every(isNaN)",
    "new Set([1]).isSupersetOf({size: 1, has: Boolean, keys: () => sparse.values()})",
    "Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)",
    "Array.prototype.includes.call({length: 2 ** 53 - 1}, 1)",
    "Array.prototype.every.call({length: 2 ** 53 - 1}, Boolean)",
    "Array.prototype.indexOf.call(new Proxy([], {get: (t, n) => n === 'length' ? 2 ** 53 - 1 : 0}), 1)",
    "Array.prototype.reverse.call({length: 2 ** 53 - 1})",
    "Array.from({length: 1e6})",
    "numbers.indexOf(-1)",
    "numbers.slice().shift()",
    "numbers.map(Math.abs)",
    "numbers.sort()",
    "numbers.sort(Math.max)",
    "numbers.toSorted()",
    "numbers.join()",
    "numbers.concat(numbers)",
    "Array.prototype.concat.apply([], Array(60000).fill(holes))",
    "sames.sort()",
    "sames.includes(similar)",
    "sames.indexOf(similar)",
    "sames.lastIndexOf(similar)",
    "tree.flat(Infinity)",
    "[0].flatMap(() => tree)",
    "`${tree}`",
    "Object.keys(numbers)",
    "Object.assign([], numbers)",
    "bytes.sort()",
    "bytes.toSorted()",
    "bytes.sort(Math.max)",
    "bytes.indexOf(1)",
    "bytes.fill(0)",
    "bytes.join('')",
    "new Uint8Array(bytes)",
    "Array.from(bytes)",
    "bytes.toBase64()",
    "bytes.buffer.slice(0)",
    "new TextEncoder().encode(s)",
    "new TextDecoder().decode(bytes)",
    "new Response(s).json()",
    "crypto.subtle.digest('SHA-512', bytes)",
    "eval('1;'.repeat(1e6))",
    "new Function('1;'.repeat(30000))",
];

const INPUTS: &str = "
    const sparse = []; sparse.length = 4e9;
    const holes = Array(1e6);
    let tree = []; for (let i = 0; i < 60; i++) tree = [tree, tree];
    const make = (name) => ({
        s: () => 'a'.repeat(4e6), half: () => 'a'.repeat(2e6) + 'b', behind: () => 'b' + 'a'.repeat(2e6),
        marks: () => '\\u0315\\u0300'.repeat(2e5), bytes: () => new Uint8Array(4e6),
        numbers: () => Array.from({length: 3e5}, (_, i) => i * 7919 % 300000),
    })[name]();
    let same, similar, sames;
    const prepare = () => { same = 'x'.repeat(3e6) + 'a'; similar = 'x'.repeat(3e6) + 'b';
        const other = same.slice(0, -1) + 'a';
        sames = Array.from({length: 1e5}, (_, i) => i % 2 ? same : other); };";

#[test]
fn no_built_in_runs_much_longer_than_a_call_may() {
    let mut late = Vec::new();
    for expression in HOSTILE {
        let names = ["s", "half", "behind", "marks", "bytes", "numbers"];
        let has = |name: &&str| {
            let mut words = expression.split(|c: char| !c.is_ascii_alphanumeric());
            words.any(|word| word == *name)
        };
        let made: Vec<String> = names
            .into_iter()
            .filter(has)
            .map(|name| format!("const {name} = make('{name}');"))
            .collect();
        let prepared = if expression.contains("sames") { "prepare();" } else { "" };
        let text = format!(
            "{INPUTS} export default () => {{ {prepared} {} for (;;) {{ try {{ ({expression}); }}
             catch {{}} }} }}",
            made.concat()
        );
        let mut engine = engine(&text, CPU);
        let start = time();
        let end = engine.start(0, 0, Request::default()).end;
        let took = time() - start;
        let over = matches!(end, Some(End::CpuLimit | End::OutOfMemory));
        if took > LONGEST || !over {
            late.push(format!("{expression}: {took:?}, {end:?}"));
        }
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}

#[test]
fn what_is_replaced_does_what_the_original_does() {
    let long = "'ab'.repeat(4000)";
    for (expression, result) in [
        ("['abc'.includes('b'), 'abc'.includes('c', 3), 'abc'.includes('')]", "[true,false,true]"),
        ("['abcabc'.indexOf('c', 3), 'abc'.indexOf('', 9), 'a'.indexOf('b')]", "[5,3,-1]"),
        (
            "['abcabc'.lastIndexOf('c'), 'abcabc'.lastIndexOf('c', 4), 'abc'.lastIndexOf('')]",
            "[5,2,3]",
        ),
        ("'a,b,c'.split(',', 2).concat('ab'.split(''), 'x'.split())", r#"["a","b","a","b","x"]"#),
        ("['aa'.replace('a', '$&b'), 'aa'.replaceAll('a', (m, at) => at)]", r#"["aba","01"]"#),
        (
            "'a1b22c'.split(/\\d+/).concat('ab'.split(/(?:)/), ''.split(/x/))",
            r#"["a","b","c","a","b",""]"#,
        ),
        ("'a<b>c'.split(/<(.)>/)", r#"["a","b","c"]"#),
        (
            "['a1'.match(/\\d/)[0], 'a1'.search('1'), [...'a1b2'.matchAll('[0-9]')].length]",
            r#"["1",1,2]"#,
        ),
        ("'x'.replace(/(?<n>x)/, '$<n>$1').length", "2"),
        (
            "[3, 1, 2].sort().concat([3, 20, 100].sort(), ['b', 'a', 'B'].sort())",
            r#"[1,2,3,100,20,3,"B","a","b"]"#,
        ),
        ("[[3, 1].toSorted((a, b) => a - b), [1, [2, [3, [4]]]].flat(2)]", "[[1,3],[1,2,3,[4]]]"),
        (
            "[[1, 2].flatMap((x) => [x, [x]]), [1].concat(2, [3], [[4]])]",
            "[[1,[1],2,[2]],[1,2,3,[4]]]",
        ),
        (
            "[Array.from('abc', (c) => c + c), Array.from({length: 2, 0: 'x'}), Array.from(new Set([1]))]",
            r#"[["aa","bb","cc"],["x",null],[1]]"#,
        ),
        (
            "(() => { const a = [1, 2, 3]; return [a.splice(1), a.splice(0, 1), a.shift(), a] })()",
            "[[2,3],[1],null,[]]",
        ),
        (
            "(() => { const o = {length: 2, 0: 'b', 1: 'a'}; Array.prototype.sort.call(o); return o })()",
            r#"{"0":"a","1":"b","length":2}"#,
        ),
        (
            "[[1, 2, 1].lastIndexOf(1), [NaN].includes(NaN), [1, 2].fill(0), [1].reduce((a, b) => a + b, 1)]",
            "[2,true,[0,0],2]",
        ),
        (
            "[new Set([1, 1]).size, new Set('ab').has('b'), [...new Set([1, 2]).union(new Set([3]))]]",
            "[1,true,[1,2,3]]",
        ),
        (
            "[Set.name, new Set() instanceof Set, /x/ instanceof RegExp, /x/.constructor === RegExp]",
            r#"["Set",true,true,true]"#,
        ),
        (
            "[RegExp('a', 'g').flags, new RegExp(/a/i).source, RegExp.prototype.exec.name]",
            r#"["g","a","exec"]"#,
        ),
        ("(() => { class A extends Set { has() { return 7 } } return new A([1]).has(1) })()", "7"),
        (
            "(() => { class P extends RegExp {} return [new P('a') instanceof P, 'xax'.split(new P('a'))] })()",
            r#"[true,["x","x"]]"#,
        ),
        (
            "[[1, 2, 3].values().drop(1).toArray(), [1, 2].values().filter((x) => x > 1).map((x) => x * 2).toArray()]",
            "[[2,3],[4]]",
        ),
        (
            "[[1, 2].values().some((x) => x > 1), [1, 2].values().reduce((a, b) => a + b)]",
            "[true,3]",
        ),
        (
            "[...new Int8Array([3, -1, 2]).sort()].concat([...new Float64Array([NaN, 1, -0, 0]).toSorted()].map((x) => Object.is(x, -0) ? '-0' : x))",
            r#"[-1,2,3,"-0",0,1,null]"#,
        ),
        (
            "(() => { const a = Uint32Array.from({length: 200000}, (_, i) => (i * 7919) % 200003); a.sort(); return a.every((x, i) => i === 0 || a[i - 1] <= x) })()",
            "true",
        ),
        (
            "[`${BigInt('12')}`, BigInt(3).toString(2), BigInt.asUintN(8, 257n).toString(), typeof BigInt(1)]",
            r#"["12","11","1","bigint"]"#,
        ),
        (
            "[JSON.parse('[1]', (k, v) => v), JSON.stringify({a: 1}, null, 1), JSON.stringify(undefined) === undefined]",
            r#"[[1],"{\n \"a\": 1\n}",true]"#,
        ),
        (
            "[new Function('a', 'return a + 1')(1), eval('1 + 1'), (() => {}).constructor === Function]",
            "[2,2,true]",
        ),
        (
            "[Object.keys({a: 1}), Object.entries({a: 1}), Object.assign({}, {b: 2}), Reflect.ownKeys({c: 1})]",
            r#"[["a"],[["a",1]],{"b":2},["c"]]"#,
        ),
        (
            "[new Proxy([1, 2], {}).map((x) => x * 2), Array.isArray(new Proxy([], {}))]",
            "[[2,4],true]",
        ),
        (
            "['é'.normalize('NFD').length, 'a'.localeCompare('b'), 'abc'.padStart(5, '-')]",
            r#"[2,-1,"--abc"]"#,
        ),
        ("Object.groupBy([1, 2, 3], (x) => x % 2 ? 'odd' : 'even')", r#"{"odd":[1,3],"even":[2]}"#),
        ("String.prototype.split.length + Array.prototype.concat.length + Array.from.length", "4"),
        ("(() => { try { new ([].map)(); return 0 } catch { return 1 } })()", "1"),
    ] {
        assert_eq!(evaluate(expression), result, "{expression}");
    }
    // In pieces, too.
    let large = "'x'.repeat(3000000)";
    for (expression, result) in [
        (format!("({long} + 'c').indexOf({long} + 'c')"), "0"),
        (format!("({large} + {long} + 'c' + {large}).indexOf({long} + 'c')"), "3000000"),
        (format!("({large} + {long} + 'c' + {large}).lastIndexOf({long} + 'c')"), "3000000"),
        (
            format!("({large} + {long} + 'c' + {large}).split({long} + 'c').map((x) => x.length)"),
            "[3000000,3000000]",
        ),
        (
            format!(
                "({large} + {long} + 'c' + 'yy').replaceAll({long} + 'c', \"[$&$'$$]\").length"
            ),
            "3008008",
        ),
    ] {
        assert_eq!(evaluate(&expression), result, "{expression}");
    }
}

/// Built-ins that are as they were: they take the same time whatever they are given, or call back
/// into the script, or take no longer than it takes to make their input.
const KNOWN: &str = include_str!("known.txt");

#[test]
fn every_built_in_is_replaced_or_known_to_be_bounded() {
    let listed = evaluate(
        "(() => {
        const seen = new Set(); const out = [];
        const left = [['', globalThis], ['%ArrayIterator%', [][Symbol.iterator]()],
            ['%Generator%', (function* () {})()], ['%MatchAll%', ''.matchAll(/x/g)],
            ['%MapIterator%', new Map().entries()], ['%SetIterator%', new Set().values()],
            ['%StringIterator%', ''[Symbol.iterator]()], ['%AsyncGenerator%', (async function* () {})()],
            ['%AsyncFunction%', async function () {}], ['%Helper%', [].values().map((x) => x)],
            ['%Wrapped%', Iterator.from({next() {}})], ['%Concat%', Iterator.concat()]];
        while (left.length > 0) {
            const [name, value] = left.shift();
            if (value === null || (typeof value !== 'object' && typeof value !== 'function')) continue;
            if (seen.has(value)) continue;
            seen.add(value);
            if (typeof value === 'function' && `${value}`.includes('[native code]')) out.push(name);
            left.push([name + '.__proto__', Object.getPrototypeOf(value)]);
            for (const key of Reflect.ownKeys(value)) {
                const found = Object.getOwnPropertyDescriptor(value, key);
                const member = `${name}.${String(key)}`;
                if ('value' in found) left.push([member, found.value]);
                else left.push([member + ':get', found.get], [member + ':set', found.set]);
            }
        }
        return out.sort(); })()",
    );
    let listed: Vec<String> = serde_json::from_str(&listed).expect("names");
    let known: Vec<&str> = KNOWN.lines().filter(|line| !line.starts_with('#')).collect();
    let is_known = |name: &str| {
        known.iter().any(|line| match line.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *line,
        })
    };
    let new: Vec<&String> = listed.iter().filter(|name| !is_known(name)).collect();
    assert!(new.is_empty(), "look at these, and replace them or put them on the list: {new:#?}");
    let gone = known.iter().filter(|line| !line.is_empty() && !line.ends_with('*'));
    let gone: Vec<&&str> = gone.filter(|line| !listed.iter().any(|name| name == **line)).collect();
    assert!(gone.is_empty(), "{gone:#?}");
}
