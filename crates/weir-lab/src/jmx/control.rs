//! Order of steps: samplers, and what is executed before them.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, Property};
use crate::program::{Counter, Function, NumberFormat, Share, Step, Text, Variable};

/// Elements that are no steps, and that are supported or irrelevant.
const PASSIVE_ELEMENTS: [&str; 41] = [
    "AuthManager",
    "BoundaryExtractor",
    "CacheManager",
    "DNSCacheManager",
    "DebugPostProcessor",
    "HtmlExtractor",
    "JMESPathExtractor",
    "MD5HexAssertion",
    "XMLAssertion",
    "XPath2Assertion",
    "XPath2Extractor",
    "XPathAssertion",
    "XPathExtractor",
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
    "KeystoreConfig",
    "PoissonRandomTimer",
    "PreciseThroughputTimer",
    "RandomVariableConfig",
    "RegexExtractor",
    "ResponseAssertion",
    "ResultAction",
    "SizeAssertion",
    "SyncTimer",
    "UniformRandomTimer",
    "UserParameters",
    "VariableThroughputTimer",
    // Never run by themselves.
    "TestFragmentController",
    "HttpMirrorControl",
    "ProxyControl",
    "WorkBench",
];

/// Ends of the classes of listeners, also of plugins. Listeners do not change the load.
const LISTENERS: [&str; 9] = [
    "Collector",
    "Listener",
    "Logger",
    "Reporter",
    "ResultSaver",
    "Summariser",
    "Uploader",
    "Visualizer",
    "Writer",
];

/// Whether an element is allowed among samplers without being a step.
pub(super) fn is_passive(element: &Element) -> bool {
    let class = element.class.as_str();
    let is_script = super::scripts::is_script(element);
    // Elements of BSF are scripts, too, which the helper does not run.
    let may_listen = !is_script && class != "BSFListener";
    PASSIVE_ELEMENTS.contains(&class)
        || is_script && !class.ends_with("Sampler")
        || may_listen && LISTENERS.iter().any(|end| class.ends_with(end))
}

/// Why an element is not supported.
pub(super) fn why_unsupported(element: &Element) -> &'static str {
    match element.class.as_str() {
        "AutoStop" => "the Lab does not end a run by the results of its samples",
        _ => "the Lab does not support this element",
    }
}

/// Whether an element is a sampler, or an action in the place of one.
fn is_sampler(element: &Element) -> bool {
    matches!(
        element.class.as_str(),
        "HTTPSamplerProxy"
            | "HTTPSampler"
            | "HTTPSampler2"
            | "DebugSampler"
            | "DummySampler"
            | "JSR223Sampler"
            | "BeanShellSampler"
            | "TestAction"
    )
}

/// Whether an element without support is reported where its kind is read.
fn is_reported(element: &Element) -> bool {
    let class = element.class.as_str();
    class.contains("PreProcessor")
        || ["Timer", "Assertion", "Extractor", "PostProcessor"]
            .iter()
            .any(|end| class.ends_with(end))
}

impl Translation<'_> {
    /// The steps of a controller or thread group: actions at the start of each iteration, then its
    /// children. The innermost level of `scope` belongs to it.
    pub(super) fn steps<'e>(&mut self, controller: &'e Element, scope: &Scope<'e>) -> Vec<Step> {
        let mut steps = Vec::new();
        self.steps_at_start(scope.level(), &mut steps);
        // JMeter evaluates the last ones first.
        steps.reverse();
        for child in controller.children.iter().filter(|child| child.enabled) {
            self.step(child, scope, &mut steps);
        }
        steps
    }

    pub(super) fn step<'e>(
        &mut self,
        element: &'e Element,
        scope: &Scope<'e>,
        steps: &mut Vec<Step>,
    ) {
        let inner = scope.with(&element.children);
        if is_sampler(element) {
            self.variables.sampler = Some(element.name.clone());
            self.check_children(element);
        }
        match element.class.as_str() {
            "HTTPSamplerProxy" | "HTTPSampler" | "HTTPSampler2" => {
                self.scripted_sampler(element, &inner);
                self.steps_before(element, &inner, steps);
                if let Some(request) = self.request(element, &inner, steps) {
                    steps.push(Step::Request(request.into()));
                    self.on_failure(&inner, steps);
                }
            }
            "DebugSampler" | "DummySampler" | "JSR223Sampler" | "BeanShellSampler" => {
                self.steps_before(element, &inner, steps);
                let sample = self.local_sample(element, &inner, steps);
                steps.push(Step::Local(sample.into()));
                self.on_failure(&inner, steps);
            }
            "TestAction" => {
                self.steps_before(element, &inner, steps);
                self.test_action(element, steps);
            }
            _ if self.controller(element, &inner, steps) => {}
            _ if is_passive(element) => {}
            _ => self.unsupported(element, why_unsupported(element)),
        }
        self.variables.sampler = None;
    }

    /// Reports the children of a sampler that nothing reads.
    fn check_children(&mut self, sampler: &Element) {
        for child in sampler.children.iter().filter(|child| child.enabled) {
            if !is_passive(child) && !is_reported(child) {
                self.unsupported(child, why_unsupported(child));
            }
        }
    }

    /// Steps before a sampler: pre-processors, then timers.
    fn steps_before(&mut self, sampler: &Element, scope: &Scope<'_>, steps: &mut Vec<Step>) {
        let first = steps.len();
        for element in scope.outer_first() {
            if element.class == "UserParameters" && !element.is("UserParameters.per_iteration") {
                self.user_parameters(element, steps);
            } else if matches!(
                element.class.as_str(),
                "JSR223PreProcessor" | "BeanShellPreProcessor"
            ) {
                self.script_before(element, steps);
            } else if element.class.contains("PreProcessor") {
                self.unsupported(element, "the Lab does not support this element");
            }
        }
        self.join_scripts(sampler, &mut steps[first..]);
        for element in scope.outer_first() {
            self.timer(element, steps);
        }
    }

    /// Steps at the start of an iteration of a controller: rows, counters and random values inside the
    /// controller or at one of its samplers.
    pub(super) fn steps_at_start(&mut self, level: &[&Element], steps: &mut Vec<Step>) {
        for element in level {
            match element.class.as_str() {
                "CSVDataSet" => {
                    if let Some(feeder) = self.feeders.get(&element.place()) {
                        steps.push(Step::Feed(*feeder));
                    }
                }
                "CounterConfig" => self.counter(element, steps),
                "ThroughputController" => self.gate(element, steps),
                "RandomVariableConfig" => self.random_variable(element, steps),
                "UserParameters" if element.is("UserParameters.per_iteration") => {
                    self.user_parameters(element, steps);
                }
                _ if is_sampler(element) => {
                    let below: Vec<&Element> =
                        element.children.iter().filter(|child| child.enabled).collect();
                    self.steps_at_start(&below, steps);
                }
                _ => {}
            }
        }
    }

    fn counter(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let name = self.fixed(element, "CounterConfig.name");
        let format = self.number_format(element, "CounterConfig.format");
        let per_user = self.switch(element, "CounterConfig.per_user", false);
        let reset = self.switch(element, "CounterConfig.reset_on_tg_iteration", false);
        let counter = Counter {
            variable: self.variables.variable(&name),
            start: or(self.property(element, "CounterConfig.start"), "0"),
            increment: or(self.property(element, "CounterConfig.incr"), "1"),
            maximum: self.property(element, "CounterConfig.end"),
            format,
            share: if per_user { Share::User } else { Share::All },
            reset_each_iteration: reset,
        };
        self.run_functions(steps);
        steps.push(Step::Count(self.variables.program.add_counter(counter)));
    }

    /// A format of numbers; the usual one if the Lab does not have it.
    fn number_format(&mut self, element: &Element, name: &str) -> NumberFormat {
        let pattern = self.fixed(element, name);
        let format = NumberFormat::new(&pattern);
        let format = format.ok_or_else(|| {
            format!("the Lab has formats of zeros, `#`, commas and literals, not `{pattern}`")
        });
        self.supported(element, format).unwrap_or_default()
    }

    fn random_variable(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let name = self.fixed(element, "variableName");
        let format = self.number_format(element, "outputFormat");
        if !self.fixed(element, "randomSeed").is_empty() {
            self.unsupported(element, "the Lab does not support seeds of random numbers");
        }
        let function = Function::Random {
            min: or(self.property(element, "minimumValue"), "1"),
            max: self.property(element, "maximumValue"),
        };
        let number = Text::from_parts([function.into()]);
        let value = match format == NumberFormat::default() {
            true => number,
            false => Text::from_parts([Function::Formatted(number, format).into()]),
        };
        let variable = self.variables.variable(&name);
        self.run_functions(steps);
        steps.push(Step::Set(vec![(variable, value)]));
    }

    /// Values by user: the first user has the first column, and so on, cyclically.
    fn user_parameters(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let names = element.properties.texts("UserParameters.names").map(str::trim);
        let names: Vec<&str> = names.collect();
        let columns = element.properties.lists("UserParameters.thread_values");
        let users: Vec<Vec<(Variable, Text)>> = columns
            .map(|values| {
                let values = values.iter().filter_map(Property::text).zip(&names);
                values
                    .map(|(value, name)| (self.variables.variable(name), self.text(element, value)))
                    .collect()
            })
            .collect();
        self.run_functions(steps);
        match users.len() {
            0 => {}
            1 => steps.extend(users.into_iter().map(Step::Set)),
            _ => steps.push(Step::SetByUser(users)),
        }
    }
}

fn or(text: Text, default: &str) -> Text {
    if text.is_empty() { Text::fixed(default) } else { text }
}
