//! Controllers and timers: the order of steps.

use super::http;
use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, Lookup as _, Property};
use crate::program::{
    Counter, CounterId, Function, LoopCount, Pause, Share, Step, Text, TextPart, ThroughputOf,
    Variable,
};

/// Elements that are no steps, and that are supported or irrelevant.
const PASSIVE_ELEMENTS: [&str; 24] = [
    "Arguments",
    "ConfigTestElement",
    "ConstantThroughputTimer",
    "ConstantTimer",
    "CookieManager",
    "CounterConfig",
    "CSVDataSet",
    "DurationAssertion",
    "GaussianRandomTimer",
    "HeaderManager",
    "JSONPathAssertion",
    "JSONPostProcessor",
    "PoissonRandomTimer",
    "RandomVariableConfig",
    "RegexExtractor",
    "ResponseAssertion",
    "SizeAssertion",
    "UniformRandomTimer",
    "UserParameters",
    // Listeners do not change the load.
    "ResultCollector",
    "Summariser",
    // Never run by themselves.
    "TestFragmentController",
    "ProxyControl",
    "WorkBench",
];

/// Whether an element is allowed among samplers without being a step.
pub(super) fn is_passive(element: &Element) -> bool {
    PASSIVE_ELEMENTS.contains(&element.class.as_str())
}

/// The steps of a controller or thread group: actions at the start of each iteration, then its
/// children. The innermost level of `scope` belongs to it.
pub(super) fn steps<'e>(
    translation: &mut Translation<'_>,
    controller: &'e Element,
    scope: &Scope<'e>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    starts(translation, scope.level(), &mut steps);
    // JMeter evaluates the last ones first.
    steps.reverse();
    for child in controller.children.iter().filter(|child| child.enabled) {
        step(translation, child, scope, &mut steps);
    }
    steps
}

fn step<'e>(
    translation: &mut Translation<'_>,
    element: &'e Element,
    scope: &Scope<'e>,
    steps: &mut Vec<Step>,
) {
    let inner = scope.with(&element.children);
    match element.class.as_str() {
        "HTTPSamplerProxy" | "HTTPSampler" | "HTTPSampler2" => {
            before(translation, &inner, steps);
            if let Some(request) = http::request(translation, element, &inner) {
                steps.push(Step::Request(request.into()));
            }
        }
        "TestAction" => {
            before(translation, &inner, steps);
            // 1 is a pause; other actions stop or break threads.
            match translation.number(element, "ActionProcessor.action", 0) {
                1 => {
                    let pause = translation.property(element, "ActionProcessor.duration");
                    steps.push(Step::Pause(Pause::Constant(pause)));
                }
                _ => translation.unsupported(
                    element,
                    "the Lab supports only the pause of flow control actions",
                ),
            }
        }
        "GenericController" => steps.extend(self::steps(translation, element, &inner)),
        "LoopController" => repeat(translation, element, &inner, steps),
        "OnceOnlyController" => {
            steps.push(Step::Once(self::steps(translation, element, &inner)));
        }
        "TransactionController" => {
            let label = translation.label(element);
            steps.push(Step::Transaction {
                label,
                with_pauses: translation.switch(
                    element,
                    "TransactionController.includeTimers",
                    true,
                ),
                parent_only: translation.switch(element, "TransactionController.parent", false),
                steps: self::steps(translation, element, &inner),
            });
        }
        class if class.contains("JSR223") || class.contains("BeanShell") => {
            translation.unsupported(element, "the Lab does not run scripts");
        }
        _ if is_passive(element) => {}
        _ => translation.unsupported(element, "the Lab does not support this element"),
    }
}

/// A loop. Once Only elements directly inside are executed in the first iteration each time the
/// loop is entered, so the first iteration is unrolled.
fn repeat<'e>(
    translation: &mut Translation<'_>,
    element: &'e Element,
    inner: &Scope<'e>,
    steps: &mut Vec<Step>,
) {
    let raw = element.text("LoopController.loops").to_owned();
    let loops = translation.text(element, &raw);
    let body = self::steps(translation, element, inner);
    let count = loops.as_fixed().map(|text| text.trim().parse::<i64>().unwrap_or(0));
    if !body.iter().any(|step| matches!(step, Step::Once(_))) {
        let times = match count {
            Some(count) if count < 0 => LoopCount::Forever,
            _ => LoopCount::Count(loops),
        };
        steps.push(Step::Loop { times, steps: body });
        return;
    }
    let Some(count) = count else {
        let message = "a number of loops that changes, with a Once Only Controller in it";
        return translation.unsupported(element, message);
    };
    if count == 0 {
        return;
    }
    let mut rest = Vec::new();
    for step in body {
        match step {
            Step::Once(first) => steps.extend(first),
            other => {
                steps.push(other.clone());
                rest.push(other);
            }
        }
    }
    let times = match count {
        ..0 => LoopCount::Forever,
        count => LoopCount::Count(Text::fixed((count - 1).to_string())),
    };
    steps.push(Step::Loop { times, steps: rest });
}

/// Steps before a sampler: pre-processors, then timers.
fn before(translation: &mut Translation<'_>, scope: &Scope<'_>, steps: &mut Vec<Step>) {
    for element in scope.outer_first() {
        if element.class == "UserParameters" && !element.is("UserParameters.per_iteration") {
            user_parameters(translation, element, steps);
        } else if element.class.contains("PreProcessor") {
            translation.unsupported(element, "the Lab does not support this element");
        }
    }
    for element in scope.outer_first() {
        timer(translation, element, steps);
    }
}

fn timer(translation: &mut Translation<'_>, element: &Element, steps: &mut Vec<Step>) {
    let delay = "ConstantTimer.delay";
    let range = "RandomTimer.range";
    let pause = match element.class.as_str() {
        "ConstantTimer" => Pause::Constant(translation.property(element, delay)),
        "UniformRandomTimer" => Pause::Uniform {
            offset: translation.property(element, delay),
            range: translation.property(element, range),
        },
        "GaussianRandomTimer" => Pause::Gaussian {
            offset: translation.property(element, delay),
            deviation: translation.property(element, range),
        },
        "PoissonRandomTimer" => Pause::Poisson {
            offset: translation.property(element, delay),
            mean: translation.property(element, range),
        },
        "ConstantThroughputTimer" => {
            let of = match translation.number(element, "calcMode", 0) {
                0 => ThroughputOf::User,
                1 => ThroughputOf::AllUsers,
                2 => ThroughputOf::Group,
                3 => ThroughputOf::AllUsersShared,
                4 => ThroughputOf::GroupShared,
                _ => return translation.invalid(element, "`calcMode` is invalid"),
            };
            let per_minute = translation.property(element, "throughput");
            steps.push(Step::Throughput { per_minute, of });
            return;
        }
        class if class.ends_with("Timer") => {
            return translation.unsupported(element, "the Lab does not support this timer");
        }
        _ => return,
    };
    steps.push(Step::Pause(pause));
}

/// Steps at the start of an iteration of a controller: rows, counters and random values inside the
/// controller or at one of its samplers.
fn starts(translation: &mut Translation<'_>, level: &[&Element], steps: &mut Vec<Step>) {
    for element in level {
        match element.class.as_str() {
            "CSVDataSet" => {
                if let Some(feeder) = translation.feeders.get(&element.line) {
                    steps.push(Step::Feed(*feeder));
                }
            }
            "CounterConfig" => counter(translation, element, steps),
            "RandomVariableConfig" => random(translation, element, steps),
            "UserParameters" if element.is("UserParameters.per_iteration") => {
                user_parameters(translation, element, steps);
            }
            "HTTPSamplerProxy" | "HTTPSampler" | "HTTPSampler2" => {
                let below: Vec<&Element> =
                    element.children.iter().filter(|child| child.enabled).collect();
                starts(translation, &below, steps);
            }
            _ => {}
        }
    }
}

fn counter(translation: &mut Translation<'_>, element: &Element, steps: &mut Vec<Step>) {
    let name = translation.fixed(element, "CounterConfig.name");
    let format = translation.fixed(element, "CounterConfig.format");
    // A pattern of Java's DecimalFormat. Only zeros with a prefix are supported.
    let digits = format.chars().rev().take_while(|c| *c == '0').count();
    let prefix = format[..format.len() - digits].to_owned();
    if prefix.contains(['#', ',', '.', ';', '%', '\'']) {
        translation.unsupported(
            element,
            &format!("the Lab does not support the counter format `{format}`"),
        );
    }
    let per_user = translation.switch(element, "CounterConfig.per_user", false);
    let counter = Counter {
        variable: translation.variables.variable(&name),
        start: or(translation.property(element, "CounterConfig.start"), "0"),
        increment: or(translation.property(element, "CounterConfig.incr"), "1"),
        maximum: translation.property(element, "CounterConfig.end"),
        digits: u8::try_from(digits).unwrap_or(u8::MAX),
        prefix,
        share: if per_user { Share::User } else { Share::All },
        reset_each_iteration: translation.switch(
            element,
            "CounterConfig.reset_on_tg_iteration",
            false,
        ),
    };
    let counters = &mut translation.variables.program.counters;
    let id = CounterId(u32::try_from(counters.len()).unwrap_or(u32::MAX));
    counters.push(counter);
    steps.push(Step::Count(id));
}

fn or(text: Text, default: &str) -> Text {
    if text.as_fixed() == Some("") { Text::fixed(default) } else { text }
}

fn random(translation: &mut Translation<'_>, element: &Element, steps: &mut Vec<Step>) {
    let name = translation.fixed(element, "variableName");
    if !translation.fixed(element, "outputFormat").is_empty() {
        translation.unsupported(element, "the Lab does not support formats of random numbers");
    }
    let function = Function::Random {
        min: or(translation.property(element, "minimumValue"), "1"),
        max: translation.property(element, "maximumValue"),
        store_in: None,
    };
    let value = Text::from_parts([TextPart::Function(Box::new(function))]);
    let variable = translation.variables.variable(&name);
    steps.push(Step::Set(vec![(variable, value)]));
}

/// Values by user: the first user has the first column, and so on, cyclically.
fn user_parameters(translation: &mut Translation<'_>, element: &Element, steps: &mut Vec<Step>) {
    let names = element.properties.items("UserParameters.names");
    let names: Vec<String> =
        names.iter().filter_map(Property::text).map(|name| name.trim().to_owned()).collect();
    let mut users: Vec<Vec<(Variable, Text)>> = Vec::new();
    for column in element.properties.items("UserParameters.thread_values") {
        let Property::List(values) = column else { continue };
        let values = values.iter().filter_map(Property::text).zip(&names);
        users.push(
            values
                .map(|(value, name)| {
                    (translation.variables.variable(name), translation.text(element, value))
                })
                .collect(),
        );
    }
    match users.len() {
        0 => {}
        1 => steps.extend(users.into_iter().map(Step::Set)),
        _ => steps.push(Step::SetByUser(users)),
    }
}
