//! Plans of a thread group with HTTP samplers, written for comparisons.

use super::elements::escape;
use std::fmt::Write as _;

/// An element with properties and the elements below it. A property `name` is a text.
pub(super) fn element(class: &str, name: &str, properties: &[(&str, &str)], below: &str) -> String {
    let mut text = format!(
        "<{class} guiclass=\"TestBeanGUI\" testclass=\"{class}\" testname=\"{}\">",
        escape(name)
    );
    for (property, value) in properties {
        let _ = write!(text, "<stringProp name=\"{property}\">{}</stringProp>", escape(value));
    }
    let _ = write!(text, "</{class}><hashTree>{below}</hashTree>");
    text
}

/// The same, with a list of texts or elements in XML.
pub(super) fn with_list(
    class: &str,
    properties: &[(&str, &str)],
    (list, items): (&str, &str),
) -> String {
    let text = element(class, list, properties, "");
    let end = format!("</{class}>");
    let list = format!("<collectionProp name=\"{list}\">{items}</collectionProp>{end}");
    text.replacen(&end, &list, 1)
}

/// A list of texts.
pub(super) fn texts(items: &[&str]) -> String {
    let items =
        items.iter().map(|item| format!("<stringProp name=\"0\">{}</stringProp>", escape(item)));
    items.collect()
}

/// An element within a list.
pub(super) fn item(kind: &str, properties: &[(&str, &str)]) -> String {
    let mut text = format!("<elementProp name=\"\" elementType=\"{kind}\">");
    for (property, value) in properties {
        let _ = write!(text, "<stringProp name=\"{property}\">{}</stringProp>", escape(value));
    }
    text + "</elementProp>"
}

/// An argument: name, value, whether it is encoded.
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
    let text = element("HTTPSamplerProxy", name, properties, below);
    let lists = format!(
        "<elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\"><collectionProp \
         name=\"Arguments.arguments\">{arguments}</collectionProp></elementProp><elementProp \
         name=\"HTTPsampler.Files\" elementType=\"HTTPFileArgs\"><collectionProp \
         name=\"HTTPFileArgs.files\">{files}</collectionProp></elementProp></HTTPSamplerProxy>"
    );
    text.replacen("</HTTPSamplerProxy>", &lists, 1)
}

/// A GET.
pub(super) fn get(name: &str, path: &str, below: &str) -> String {
    sampler(name, &[("HTTPSampler.path", path), ("HTTPSampler.method", "GET")], ("", ""), below)
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

/// A thread group.
pub(super) fn group(name: &str, loops: u32, inside: &str) -> String {
    let text = element(
        "ThreadGroup",
        name,
        &[("ThreadGroup.num_threads", "1"), ("ThreadGroup.ramp_time", "0")],
        inside,
    );
    let controller = format!(
        "<elementProp name=\"ThreadGroup.main_controller\" elementType=\"LoopController\">\
         <boolProp name=\"LoopController.continue_forever\">false</boolProp><stringProp \
         name=\"LoopController.loops\">{loops}</stringProp></elementProp></ThreadGroup>"
    );
    text.replacen("</ThreadGroup>", &controller, 1)
}

/// A plan with variables, and HTTP defaults for the server of the test.
pub(super) fn plan(variables: &[(&str, &str)], inside: &str) -> String {
    let variables: String = variables
        .iter()
        .map(|(name, value)| {
            item("Argument", &[("Argument.name", name), ("Argument.value", value)])
        })
        .collect();
    let defaults = element(
        "ConfigTestElement",
        "defaults",
        &[
            ("HTTPSampler.domain", "127.0.0.1"),
            ("HTTPSampler.port", "${__P(port)}"),
            ("HTTPSampler.protocol", "http"),
        ],
        "",
    );
    let agent = item("Header", &[("Header.name", "User-Agent"), ("Header.value", "lab-oracle")]);
    let headers = with_list("HeaderManager", &[], ("HeaderManager.headers", &agent));
    let below = defaults + &headers + inside;
    let plan = element("TestPlan", "plan", &[("TestPlan.serialize_threadgroups", "true")], &below);
    let variables = format!(
        "<elementProp name=\"TestPlan.user_defined_variables\" elementType=\"Arguments\">\
         <collectionProp name=\"Arguments.arguments\">{variables}</collectionProp></elementProp>\
         </TestPlan>"
    );
    let plan = plan.replacen("</TestPlan>", &variables, 1);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><jmeterTestPlan version=\"1.2\" \
         properties=\"5.0\" jmeter=\"5.6.3\"><hashTree>{plan}</hashTree></jmeterTestPlan>"
    )
}
