//! Plans for comparisons, written element by element.

use std::fmt::Write as _;

/// An element: its class, its name, its properties and the elements below it. A kind before the name of
/// a property, as in `int:name`, is the one in the file; `raw:` is written as it is.
pub(super) fn el(class: &str, name: &str, properties: &[(&str, &str)], below: &str) -> String {
    let tag = class;
    // Only defaults are recognised by the name of their editor.
    let gui = if class == "ConfigTestElement" { "HttpDefaultsGui" } else { "TestBeanGUI" };
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

/// User defined variables.
pub(super) fn variables(all: &[(&str, &str)]) -> String {
    let arguments: String = all
        .iter()
        .map(|(name, value)| {
            format!(
                "<elementProp name=\"{name}\" elementType=\"Argument\"><stringProp \
                 name=\"Argument.name\">{name}</stringProp><stringProp name=\"Argument.value\">\
                 {value}</stringProp><stringProp name=\"Argument.metadata\">=</stringProp>\
                 </elementProp>"
            )
        })
        .collect();
    let list = format!("<collectionProp name=\"Arguments.arguments\">{arguments}</collectionProp>");
    el("Arguments", "variables", &[("raw:", &list)], "")
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
    let defaults = el(
        "ConfigTestElement",
        "defaults",
        &[("HTTPSampler.domain", "127.0.0.1"), ("HTTPSampler.port", "${__P(port)}")],
        "",
    );
    let header = "<collectionProp name=\"HeaderManager.headers\"><elementProp name=\"\" \
                  elementType=\"Header\"><stringProp name=\"Header.name\">User-Agent</stringProp>\
                  <stringProp name=\"Header.value\">lab-oracle</stringProp></elementProp></collectionProp>";
    let headers = el("HeaderManager", "headers", &[("raw:", header)], "");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\" properties=\"5.0\" \
         jmeter=\"5.6.3\"><hashTree>\n<TestPlan guiclass=\"TestPlanGui\" testclass=\"TestPlan\" testname=\"Plan\"><boolProp \
         name=\"TestPlan.serialize_threadgroups\">true</boolProp></TestPlan>\n<hashTree>\n\
         {defaults}{headers}{groups}\n</hashTree></hashTree></jmeterTestPlan>"
    )
}
