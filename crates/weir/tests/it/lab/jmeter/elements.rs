//! Plans for comparisons, written element by element.

use std::fmt::Write as _;

/// An element: its class, its name, its properties and the elements below it. A kind before the name of
/// a property, as in `int:name`, is the one in the file; `raw:` is written as it is.
pub(super) fn el(class: &str, name: &str, properties: &[(&str, &str)], below: &str) -> String {
    let tag = class;
    // Only defaults are recognised by the name of their editor.
    let gui = if class == "ConfigTestElement" { "HttpDefaultsGui" } else { "TestBeanGUI" };
    let name = escape(name);
    let mut text = format!(
        "<{tag} guiclass=\"{gui}\" testclass=\"{class}\" testname=\"{name}\" enabled=\"true\">"
    );
    for (name, value) in properties {
        let (kind, name) = name.split_once(':').unwrap_or(("", name));
        let raw = value;
        let value = &escape(value);
        let _ = match kind {
            "raw" => write!(text, "{raw}"),
            "int" | "long" | "string" => {
                write!(text, "<{kind}Prop name=\"{name}\">{value}</{kind}Prop>")
            }
            "double" => write!(
                text,
                "<doubleProp><name>{name}</name><value>{value}</value><savedValue>0.0</savedValue>\
                 </doubleProp>"
            ),
            _ if matches!(value.as_str(), "true" | "false") => {
                write!(text, "<boolProp name=\"{name}\">{value}</boolProp>")
            }
            _ => write!(text, "<stringProp name=\"{name}\">{value}</stringProp>"),
        };
    }
    let _ = write!(text, "</{tag}>\n<hashTree>{below}</hashTree>\n");
    text
}

/// Escapes a text for XML.
pub(super) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\r', "&#13;").replace('\n', "&#10;")
}

/// A list of texts.
pub(super) fn list(name: &str, items: &[&str]) -> String {
    let items: String = items
        .iter()
        .enumerate()
        .map(|(at, item)| format!("<stringProp name=\"{at}\">{}</stringProp>", escape(item)))
        .collect();
    format!("<collectionProp name=\"{name}\">{items}</collectionProp>")
}

/// An element with a list of texts or elements in XML.
pub(super) fn with_list(
    class: &str,
    properties: &[(&str, &str)],
    (list, items): (&str, &str),
) -> String {
    let items = format!("<collectionProp name=\"{list}\">{items}</collectionProp>");
    let all: Vec<(&str, &str)> = [("raw:", &*items)].iter().chain(properties).copied().collect();
    el(class, list, &all, "")
}

/// An element within a list.
pub(super) fn item(kind: &str, properties: &[(&str, &str)]) -> String {
    let mut text = format!("<elementProp name=\"\" elementType=\"{kind}\">");
    for (property, value) in properties {
        let _ = write!(text, "<stringProp name=\"{property}\">{}</stringProp>", escape(value));
    }
    text + "</elementProp>"
}

/// An argument of a sampler: name, value, whether it is encoded.
pub(super) fn argument(name: &str, value: &str, encode: bool) -> String {
    let encode = encode.to_string();
    item(
        "HTTPArgument",
        &[
            ("Argument.name", name),
            ("Argument.value", value),
            ("Argument.metadata", "="),
            ("HTTPArgument.always_encode", &encode),
        ],
    )
}

/// A sampler with arguments and files (in XML).
pub(super) fn sampler(
    name: &str,
    properties: &[(&str, &str)],
    (arguments, files): (&str, &str),
    below: &str,
) -> String {
    let lists = format!(
        "<elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\"><collectionProp \
         name=\"Arguments.arguments\">{arguments}</collectionProp></elementProp><elementProp \
         name=\"HTTPsampler.Files\" elementType=\"HTTPFileArgs\"><collectionProp \
         name=\"HTTPFileArgs.files\">{files}</collectionProp></elementProp>"
    );
    let all: Vec<(&str, &str)> = properties.iter().copied().chain([("raw:", &*lists)]).collect();
    el("HTTPSamplerProxy", name, &all, below)
}

/// A request of this path, with elements below.
pub(super) fn get_with(name: &str, path: &str, below: &str) -> String {
    let properties = [
        ("HTTPSampler.path", path),
        ("HTTPSampler.method", "GET"),
        ("HTTPSampler.use_keepalive", "true"),
    ];
    el("HTTPSamplerProxy", name, &properties, below)
}

pub(super) fn get(name: &str) -> String {
    get_with(name, &format!("/status/200?{name}"), "")
}

/// A POST of a raw body to the echo.
pub(super) fn post(name: &str, body: &str, below: &str) -> String {
    let properties = [
        ("HTTPSampler.path", "/echo"),
        ("HTTPSampler.method", "POST"),
        ("HTTPSampler.postBodyRaw", "true"),
    ];
    sampler(name, &properties, (&argument("", body, false), ""), below)
}

/// User defined variables as an element.
pub(super) fn variables(all: &[(&str, &str)]) -> String {
    el("Arguments", "variables", &[("raw:", &definitions(all))], "")
}

fn definitions(all: &[(&str, &str)]) -> String {
    let of = |(name, value): &(&str, &str)| {
        let properties =
            [("Argument.name", *name), ("Argument.value", *value), ("Argument.metadata", "=")];
        item("Argument", &properties)
    };
    let all: String = all.iter().map(of).collect();
    format!("<collectionProp name=\"Arguments.arguments\">{all}</collectionProp>")
}

/// A thread group with a number of threads and of loops.
pub(super) fn group(
    name: &str,
    users: &str,
    loops: &str,
    more: &[(&str, &str)],
    below: &str,
) -> String {
    group_of("ThreadGroup", name, (users, loops), more, below)
}

/// A thread group of this class.
pub(super) fn group_of(
    class: &str,
    name: &str,
    (users, loops): (&str, &str),
    more: &[(&str, &str)],
    below: &str,
) -> String {
    let main = format!(
        "<elementProp name=\"ThreadGroup.main_controller\" elementType=\"LoopController\" \
         testclass=\"LoopController\" testname=\"Loop\"><boolProp \
         name=\"LoopController.continue_forever\">false</boolProp><stringProp \
         name=\"LoopController.loops\">{loops}</stringProp></elementProp>"
    );
    let mut properties = vec![
        ("raw:", main.as_str()),
        ("ThreadGroup.num_threads", users),
        ("ThreadGroup.ramp_time", "0"),
    ];
    properties.extend(more);
    el(class, name, &properties, below)
}

/// A plan whose groups run one after the other.
pub(super) fn plan(groups: &str) -> String {
    plan_with(&[], groups)
}

/// Likewise, with variables of the plan. HTTP defaults are for the server of the test.
pub(super) fn plan_with(variables: &[(&str, &str)], groups: &str) -> String {
    let defaults = el(
        "ConfigTestElement",
        "defaults",
        &[("HTTPSampler.domain", "127.0.0.1"), ("HTTPSampler.port", "${__P(port)}")],
        "",
    );
    let agent = item("Header", &[("Header.name", "User-Agent"), ("Header.value", "lab-oracle")]);
    let headers = with_list("HeaderManager", &[], ("HeaderManager.headers", &agent));
    let variables = format!(
        "<elementProp name=\"TestPlan.user_defined_variables\" elementType=\"Arguments\">{}\
         </elementProp>",
        definitions(variables)
    );
    let below = defaults + &headers + groups;
    let properties = [("TestPlan.serialize_threadgroups", "true"), ("raw:", &variables)];
    let plan = el("TestPlan", "Plan", &properties, &below);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\" \
         properties=\"5.0\" jmeter=\"5.6.3\"><hashTree>\n{plan}</hashTree></jmeterTestPlan>"
    )
}
