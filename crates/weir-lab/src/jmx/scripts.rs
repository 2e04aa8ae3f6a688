//! Scripts in Groovy, BeanShell and other languages, which run in a helper JVM on JMeter's classes.

use super::http::Settings;
use super::scope::Scope;
use super::script_text::{self, Source};
use super::translate::Translation;
use super::tree::{Element, Property};
use super::variables::Variables;
use crate::program::{
    AfterScripts, LAST_SUCCESS, ScriptElement, ScriptId, ScriptRole, ScriptStep, Scripts, Step,
    Text, TextPart,
};

/// Why a script cannot run.
pub(super) const NEEDS_JMETER: &str =
    "scripts need the libraries of JMeter: `--jmeter DIR`, or JMETER_HOME";

/// Properties of HTTP samplers that scripts see.
const SAMPLER_PROPERTIES: [&str; 11] = [
    "HTTPSampler.domain",
    "HTTPSampler.port",
    "HTTPSampler.protocol",
    "HTTPSampler.path",
    "HTTPSampler.method",
    "HTTPSampler.contentEncoding",
    "HTTPSampler.postBodyRaw",
    "HTTPSampler.follow_redirects",
    "HTTPSampler.auto_redirects",
    "HTTPSampler.use_keepalive",
    "HTTPSampler.DO_MULTIPART_POST",
];

/// Role and package of a class; `None` if it is no script.
fn kind(class: &str) -> Option<(ScriptRole, &'static str)> {
    let of = class.strip_prefix("JSR223").or_else(|| class.strip_prefix("BeanShell"))?;
    Some(match of {
        "Sampler" => (ScriptRole::Sampler, "org.apache.jmeter.protocol.java.sampler"),
        "PreProcessor" => (ScriptRole::PreProcessor, "org.apache.jmeter.modifiers"),
        "PostProcessor" => (ScriptRole::PostProcessor, "org.apache.jmeter.extractor"),
        "Assertion" => (ScriptRole::Assertion, "org.apache.jmeter.assertions"),
        "Timer" => (ScriptRole::Timer, "org.apache.jmeter.timers"),
        "Listener" => (ScriptRole::Listener, "org.apache.jmeter.visualizers"),
        _ => return None,
    })
}

/// Whether an element is a script.
pub(super) fn is_script(element: &Element) -> bool {
    kind(&element.class).is_some()
}

/// Whether a script may read or change the sampler.
fn sees_sampler(element: &Element) -> bool {
    let mut texts = element.properties.0.values().filter_map(Property::text);
    script_text::file(element).is_some()
        || texts.any(|text| text.contains("sampler") || text.contains("ctx"))
}

impl Variables<'_> {
    /// The variable for the result of a function that JMeter evaluates before the next step.
    pub(super) fn function(&mut self, text: &str) -> Text {
        let Some(scripts) = &mut self.scripts else { return Text::fixed(text) };
        // A function may read the sample before it.
        scripts.reads_previous |= ["prev", "ctx"].iter().any(|name| text.contains(name))
            || !text.starts_with("${__groovy") && !text.starts_with("${__BeanShell");
        let script = add(
            scripts,
            ScriptElement {
                role: ScriptRole::Function,
                class: text.to_owned(),
                name: String::new(),
                properties: Vec::new(),
                arguments: Vec::new(),
                headers: Vec::new(),
            },
        );
        let variable = self.program.variable(&format!("__script {}", script.0));
        scripts.results.insert(script, variable);
        self.functions.push(script);
        Text::from_parts([TextPart::Variable(variable)])
    }
}

fn add(scripts: &mut Scripts, element: ScriptElement) -> ScriptId {
    scripts.elements.push(element);
    ScriptId(u32::try_from(scripts.elements.len() - 1).unwrap_or(u32::MAX))
}

impl Translation<'_> {
    /// A script; without JMeter it is unsupported.
    pub(super) fn script(&mut self, element: &Element) -> Option<ScriptId> {
        let (role, package) = kind(&element.class)?;
        if let Some(known) = self.known_scripts.get(&element.place()) {
            return Some(*known);
        }
        let texts = element.properties.0.iter();
        let texts =
            texts.filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned())));
        let properties: Vec<(String, String)> = texts.collect();
        let Some(scripts) = &mut self.variables.scripts else {
            self.unsupported(element, NEEDS_JMETER);
            return None;
        };
        let source = Source::new(element, &self.variables.folder);
        if source.mentions(&[LAST_SUCCESS]) {
            self.variables.program.variable(LAST_SUCCESS);
        }
        let is_before = matches!(role, ScriptRole::PreProcessor | ScriptRole::Timer);
        let reads = source.mentions(&["prev", "ctx", "SampleResult"]);
        scripts.reads_previous |= reads && (is_before || role == ScriptRole::Sampler);
        let script = add(
            scripts,
            ScriptElement {
                role,
                class: format!("{package}.{}", element.class),
                name: element.name.clone(),
                properties,
                arguments: Vec::new(),
                headers: Vec::new(),
            },
        );
        self.known_scripts.insert(element.place(), script);
        Some(script)
    }

    /// Jars and folders that the plan adds to the class path of its scripts.
    pub(super) fn class_path(&mut self, plan: &Element) {
        const NAME: &str = "TestPlan.user_define_classpath";
        if self.variables.scripts.as_ref().is_none_or(|all| all.elements.is_empty()) {
            return;
        }
        let mut found = Vec::new();
        for name in plan.text(NAME).split(',').map(str::trim).filter(|name| !name.is_empty()) {
            // The helper runs in another folder.
            match self.variables.folder.join(name).canonicalize() {
                // As in JMeter, also the jars in a folder.
                Ok(path) if path.is_dir() => found.extend([path.join("*"), path]),
                Ok(path) => found.push(path),
                Err(error) => {
                    self.invalid(plan, &format!("`{name}` of `{NAME}` cannot be read: {error}"));
                }
            }
        }
        if let Some(scripts) = &mut self.variables.scripts {
            scripts.class_path = found;
        }
    }

    /// A pre-processor or timer.
    pub(super) fn script_before(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let Some(script) = self.script(element) else { return };
        steps.push(Step::Script(ScriptStep {
            script,
            sampler: None,
            is_first: false,
            changes_request: false,
        }));
    }

    /// Functions that were found since the last call.
    pub(super) fn take_functions(&mut self) -> Vec<ScriptId> {
        std::mem::take(&mut self.variables.functions)
    }

    /// Runs functions before the next step.
    pub(super) fn run_functions(&mut self, steps: &mut Vec<Step>) {
        let step = |script| {
            Step::Script(ScriptStep {
                script,
                sampler: None,
                is_first: false,
                changes_request: false,
            })
        };
        steps.extend(self.take_functions().into_iter().map(step));
    }

    /// Functions have no place here.
    pub(super) fn no_functions(&mut self, element: &Element) {
        if !self.take_functions().is_empty() {
            let message = "the Lab does not evaluate functions of JMeter before the run starts";
            self.unsupported(element, message);
        }
    }

    /// The scripts after a sampler.
    pub(super) fn take_after(
        &mut self,
        scope: &Scope<'_>,
        sampler: Option<ScriptId>,
    ) -> Option<Box<AfterScripts>> {
        // As in JMeter, those that also hear of the transaction around it do not hear of the sampler.
        let listeners = scope.below(self.parent_levels).filter(|element| {
            matches!(element.class.as_str(), "JSR223Listener" | "BeanShellListener")
        });
        let listeners = listeners.filter_map(|element| self.script(element)).collect();
        let after = AfterScripts { sampler, listeners, ..std::mem::take(&mut self.after) };
        (!after.is_empty()).then(|| Box::new(after))
    }

    /// The HTTP sampler as scripts see it, if they do.
    pub(super) fn script_sampler(&self, element: &Element) -> Option<ScriptId> {
        self.samplers.get(&element.place()).copied()
    }

    /// Gives scripts an HTTP sampler if they use it.
    pub(super) fn scripted_sampler(&mut self, element: &Element, scope: &Scope<'_>) {
        let is_seen = scope.outer_first().any(|found| is_script(found) && sees_sampler(found));
        if !is_seen || self.samplers.contains_key(&element.place()) {
            return;
        }
        let settings = Settings::new(element, scope);
        let property = |name: &str| (name.to_owned(), settings.raw(name).to_owned());
        let properties = SAMPLER_PROPERTIES.map(property).into();
        let mut arguments = Vec::new();
        for element in &settings.elements {
            let Some(list) = element.properties.element("HTTPsampler.Arguments") else { continue };
            arguments.extend(list.elements("Arguments.arguments").map(|argument| {
                [
                    "Argument.name",
                    "Argument.value",
                    "HTTPArgument.always_encode",
                    "Argument.metadata",
                ]
                .map(|name| argument.text(name).to_owned())
            }));
        }
        let mut headers: Vec<(String, String)> = Vec::new();
        for manager in scope.inner_first().filter(|element| element.class == "HeaderManager") {
            for header in manager.properties.elements("HeaderManager.headers") {
                let name = header.text("Header.name");
                if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                    headers.push((name.to_owned(), header.text("Header.value").to_owned()));
                }
            }
        }
        let Some(scripts) = &mut self.variables.scripts else { return };
        let (role, name) = (ScriptRole::HttpSampler, element.name.clone());
        let class = String::new();
        let made = ScriptElement { role, class, name, properties, arguments, headers };
        let id = add(scripts, made);
        self.samplers.insert(element.place(), id);
    }

    /// Lets the scripts before a sampler see it, and change its request.
    pub(super) fn join_scripts(&mut self, element: &Element, steps: &mut [Step]) {
        let Some(sampler) = self.script_sampler(element) else { return };
        let Some(scripts) = &self.variables.scripts else { return };
        let role = |script: ScriptId| scripts.elements.get(script.0 as usize).map(|e| e.role);
        let mut before: Vec<&mut ScriptStep> = steps
            .iter_mut()
            .filter_map(|step| match step {
                Step::Script(step) if role(step.script) == Some(ScriptRole::PreProcessor) => {
                    Some(step)
                }
                _ => None,
            })
            .collect();
        before.iter_mut().for_each(|step| step.sampler = Some(sampler));
        if let Some(first) = before.first_mut() {
            first.is_first = true;
        }
        if let Some(last) = before.last_mut() {
            last.changes_request = true;
        }
    }
}
