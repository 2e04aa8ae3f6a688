//! Translates the tree of a plan to a [`Program`].

use super::script_text::{self, Source};
use super::text::{self, TextError};
use super::tree::{Element, Properties, Property, enabled, is_true, reached};
use super::variables::Variables;
use super::{
    JmxError, Options, Plan, Problem, control, expand, extractors, functions, scripts, threads,
};
use crate::charset::Charset;
use crate::feeder::{CsvFile, Table};
use crate::program::{
    AfterScripts, Feeder, FeederId, FileName, GateId, Label, Program, RowsFile, ScriptId, Scripts,
    Share, Text, TimerId, Variable,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// State of a translation.
pub(super) struct Translation<'p> {
    /// Variables, and the program.
    pub(super) variables: Variables<'p>,
    /// All names after `${` in the plan.
    pub(super) mentioned: BTreeSet<String>,
    /// Feeders by the place of their element.
    pub(super) feeders: BTreeMap<(u32, u64), FeederId>,
    /// Gates of Throughput Controllers, likewise.
    pub(super) gates: BTreeMap<(u32, u64), GateId>,
    /// Levels of the innermost transaction that replaces its samples.
    pub(super) parent_levels: usize,
    /// Timers that depend on other users, likewise.
    pub(super) timers: BTreeMap<(u32, u64), TimerId>,
    /// Scripts after the current sampler.
    pub(super) after: AfterScripts,
    /// Scripts by the place of their element: one for all samplers, which keeps its state.
    pub(super) known_scripts: BTreeMap<(u32, u64), ScriptId>,
    /// HTTP samplers that scripts see, by the place of their element.
    pub(super) samplers: BTreeMap<(u32, u64), ScriptId>,
    /// Names of included files.
    files: Vec<String>,
    lenient: bool,
    problems: Vec<Problem>,
}

/// Translates the elements below a plan's root.
pub(super) fn translate(
    roots: &[Element],
    (folder, name): (&Path, &str),
    options: &Options,
) -> Result<Plan, JmxError> {
    let mut program = Program { insecure: true, ..Program::default() };
    let properties: BTreeMap<String, String> = options.properties.iter().cloned().collect();
    let prefix = properties.get("includecontroller.prefix").map_or("", String::as_str);
    let expand::Expanded { roots, files, problems } = expand::expand(roots, folder, prefix);
    let roots = roots.as_slice();
    let scripts = options.jmeter.clone().map(|installation| Scripts {
        installation,
        plan: folder.join(name),
        class_path: Vec::new(),
        elements: Vec::new(),
        results: BTreeMap::new(),
        reads_previous: false,
        log: None,
    });
    let mut names =
        Names { with_scripts: scripts.is_some(), folder: folder.to_owned(), ..Names::default() };
    enabled(roots).into_iter().for_each(|element| names.add_element(element));
    names.add_changed_by_scripts();
    program.properties = properties.clone().into_iter().collect();
    program.dynamic_names = names.reads_names;
    let variables = Variables {
        program: &mut program,
        constants: BTreeMap::new(),
        changed: names.changed,
        properties,
        set_properties: names.set_properties,
        sets_any_property: names.sets_any_property,
        folder: folder.to_owned(),
        plan: name.to_owned(),
        sampler: None,
        scripts,
        functions: Vec::new(),
    };
    let mut translation = Translation {
        variables,
        mentioned: names.mentioned,
        feeders: BTreeMap::new(),
        gates: BTreeMap::new(),
        timers: BTreeMap::new(),
        parent_levels: 0,
        after: AfterScripts::default(),
        known_scripts: BTreeMap::new(),
        samplers: BTreeMap::new(),
        files,
        lenient: options.lenient,
        problems,
    };
    match roots.iter().find(|element| element.class == "TestPlan") {
        Some(plan) => {
            translation.plan(plan);
            translation.keystore(plan, &options.keystore);
            translation.class_path(plan);
        }
        None => translation.problems.push(Problem::new(1, "no `TestPlan` element")),
    }
    let results = translation.results(roots);
    if names.reads_names {
        translation.variables.keep_constants();
    }
    let scripts = translation.variables.scripts.take().filter(|all| !all.elements.is_empty());
    if scripts.is_some() {
        // Scripts may change labels.
        translation.variables.program.labels.allow_runtime(false);
    }
    let Translation { problems, .. } = translation;
    program.scripts = scripts.map(Arc::new);
    if problems.iter().any(|problem| !(problem.skippable && options.lenient)) {
        return Err(JmxError::Problems(problems));
    }
    Ok(Plan { program, skipped: problems, results })
}

impl Translation<'_> {
    fn plan(&mut self, plan: &Element) {
        if let Some(arguments) = plan.properties.element("TestPlan.user_defined_variables") {
            self.define(plan, arguments);
        }
        let all = reached(plan);
        for element in all.iter().filter(|element| element.class == "Arguments") {
            self.define(element, &element.properties);
        }
        for element in all.iter().filter(|element| element.class == "CSVDataSet") {
            self.feeder(element);
        }
        self.variables.program.consecutive = plan.is("TestPlan.serialize_threadgroups");
        self.variables.program.teardown_after_stop = plan.is("TestPlan.tearDown_on_shutdown");
        let siblings = |element: &&Element| !threads::is_group(element);
        let siblings: Vec<&Element> = plan.children.iter().filter(siblings).collect();
        for element in plan.children.iter().filter(|element| element.enabled) {
            if threads::is_group(element) {
                self.group(element, &siblings);
            } else if !control::is_passive(element) {
                self.unsupported(element, control::why_unsupported(element));
            }
        }
        if self.variables.program.groups.is_empty() && self.problems.is_empty() {
            self.problems.push(Problem::new(plan.line, "the plan has no enabled thread group"));
        }
    }

    /// Variables of the plan, in order: a value may refer to earlier variables.
    fn define(&mut self, element: &Element, arguments: &Properties) {
        let arguments = arguments.elements("Arguments.arguments");
        let values: Vec<(&str, Text, Vec<ScriptId>)> = arguments
            .map(|argument| {
                let value = self.text(element, argument.text("Argument.value"));
                (argument.text("Argument.name").trim(), value, self.take_functions())
            })
            .collect();
        for (name, value, functions) in values {
            let program = &mut self.variables.program;
            let at = program.initial.len();
            program.initial_functions.extend(functions.into_iter().map(|script| (at, script)));
            self.variables.define(name, value);
        }
    }

    fn feeder(&mut self, element: &Element) {
        // A module may be used several times: its feeders are the same.
        if self.feeders.contains_key(&element.place()) {
            return;
        }
        let file = self.property(element, "filename");
        self.no_functions(element);
        let names = self.fixed(element, "variableNames");
        let columns = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        let columns: Vec<String> = columns.map(str::to_owned).collect();
        let encoding = self.fixed(element, "fileEncoding");
        let encoding = Charset::named(&encoding);
        let Some(encoding) = self.supported(element, encoding) else { return };
        let delimiter = match self.fixed(element, "delimiter").as_str() {
            "" => ",".to_owned(),
            "\\t" => "\t".to_owned(),
            other => other.to_owned(),
        };
        let csv = CsvFile {
            path: self.variables.folder.join(file.as_fixed().unwrap_or_default()),
            skip_first: !columns.is_empty() && self.switch(element, "ignoreFirstLine", false),
            columns,
            delimiter,
            quoted: self.switch(element, "quotedData", false),
        };
        let folder = self.variables.folder.clone();
        let (table, file) = match file.as_fixed() {
            Some(_) => match self.valid(element, csv.read_rows(encoding)) {
                Some(table) => (table, None),
                None => return,
            },
            None if csv.columns.is_empty() => {
                let message = "a file whose name changes needs `variableNames`: those in its first \
                               line are unknown before the run";
                return self.unsupported(element, message);
            }
            None => {
                let table = Table { columns: csv.columns.clone(), rows: Vec::new() };
                let name = FileName { folder, name: file };
                (table, Some(Box::new(RowsFile { name, format: csv, encoding })))
            }
        };
        // Plans of JMeter 2 have the words of its English editor.
        let share = match element.text("shareMode") {
            "" | "shareMode.all" | "All threads" => Share::All,
            "shareMode.group" | "Current thread group" => Share::Group,
            "shareMode.thread" | "Current thread" => Share::User,
            other => {
                let message = format!("the Lab does not support sharing by `{other}`");
                return self.unsupported(element, &message);
            }
        };
        for column in &table.columns {
            if let Some(value) = self.variables.constants.get(column).cloned() {
                self.variables.changed.insert(column.clone());
                self.variables.define(column, Text::fixed(value));
            }
        }
        let variables = table.columns.iter().map(|name| self.variables.variable(name)).collect();
        let feeder = Feeder {
            name: element.name.clone(),
            variables,
            rows: table.rows,
            recycle: self.switch(element, "recycle", true),
            stop_user: self.switch(element, "stopThread", false),
            share,
            random: false,
            file,
        };
        let feeders = &mut self.variables.program.feeders;
        self.feeders.insert(element.place(), FeederId(feeders.len() as u32));
        feeders.push(Arc::new(feeder));
    }

    /// Result files of listeners.
    fn results(&mut self, roots: &[Element]) -> Vec<PathBuf> {
        let elements = enabled(roots).into_iter();
        elements
            .filter(|e| e.class == "ResultCollector" && !e.text("filename").is_empty())
            .map(|element| {
                let file = self.fixed(element, "filename");
                self.variables.folder.join(file)
            })
            .collect()
    }

    /// Reports an invalid element.
    pub(super) fn invalid(&mut self, element: &Element, message: &str) {
        self.problem(element, message, false);
    }

    /// Reports an unsupported element.
    pub(super) fn unsupported(&mut self, element: &Element, message: &str) {
        self.problem(element, message, true);
    }

    fn problem(&mut self, element: &Element, message: &str, skippable: bool) {
        let hint = if skippable && !self.lenient { " (`--lenient` skips it)" } else { "" };
        let problem = Problem {
            line: element.line,
            element: expand::place(&self.files, element),
            message: format!("{message}{hint}"),
            skippable,
        };
        // A text may be read twice.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// A valid value of an element; otherwise the problem is reported.
    pub(super) fn valid<T>(
        &mut self,
        element: &Element,
        value: Result<T, impl ToString>,
    ) -> Option<T> {
        value.map_err(|problem| self.invalid(element, &problem.to_string())).ok()
    }

    /// A supported value of an element; otherwise the problem is reported.
    pub(super) fn supported<T>(
        &mut self,
        element: &Element,
        value: Result<T, String>,
    ) -> Option<T> {
        value.map_err(|problem| self.unsupported(element, &problem)).ok()
    }

    /// Parses a text of an element; an invalid text stays unchanged.
    pub(super) fn text(&mut self, element: &Element, raw: &str) -> Text {
        match text::parse(raw, &mut self.variables) {
            Ok(text) => text,
            Err(TextError { message, skippable }) => {
                self.problem(element, &message, skippable);
                Text::fixed(raw)
            }
        }
    }

    /// Parses a property.
    pub(super) fn property(&mut self, element: &Element, name: &str) -> Text {
        self.text(element, element.text(name))
    }

    /// A constant property.
    pub(super) fn fixed(&mut self, element: &Element, name: &str) -> String {
        self.fixed_text(element, element.text(name), name)
    }

    /// A constant text; `what` is its name in messages.
    pub(super) fn fixed_text(&mut self, element: &Element, raw: &str, what: &str) -> String {
        let text = self.text(element, raw);
        match text.as_fixed() {
            Some(fixed) => fixed.to_owned(),
            None => {
                let message = format!("`{what}` changes while the plan runs: `{raw}`");
                self.unsupported(element, &message);
                raw.to_owned()
            }
        }
    }

    /// A boolean property.
    pub(super) fn switch(&mut self, element: &Element, name: &str, default: bool) -> bool {
        is_true(&self.fixed(element, name), default)
    }

    /// An integer property; `default` if empty.
    pub(super) fn number(&mut self, element: &Element, name: &str, default: i64) -> i64 {
        let text = self.fixed(element, name);
        match text.trim() {
            "" => default,
            text => {
                // JMeter's GUI writes some numbers with decimals.
                let number = text.parse().ok().or_else(|| integral(text));
                let number = number.ok_or_else(|| format!("`{name}` is not an integer: `{text}`"));
                self.valid(element, number).unwrap_or(default)
            }
        }
    }

    /// A property in seconds.
    pub(super) fn seconds(&mut self, element: &Element, name: &str) -> Duration {
        Duration::from_secs(u64::try_from(self.number(element, name, 0)).unwrap_or(0))
    }

    /// Whether an assertion or extractor applies to the sample itself, without sub-samples.
    pub(super) fn applies_to_sample(&mut self, element: &Element, property: &str) -> bool {
        let scope = element.text(property);
        let applies = matches!(scope, "" | "all" | "parent");
        if !applies {
            let message = format!("`{property}` has `{scope}`, which the Lab does not support");
            self.unsupported(element, &message);
        }
        applies
    }

    /// The label of an element. It is not used if the name of the element changes: see
    /// [`Self::changing_label`].
    pub(super) fn label(&mut self, element: &Element) -> Label {
        let name = self.text(element, &element.name);
        name.as_fixed().map_or(Label::default(), |name| self.variables.program.label(name))
    }

    /// Likewise, of a transaction.
    pub(super) fn transaction_label(&mut self, element: &Element) -> Label {
        let name = self.text(element, &element.name);
        let program = &mut self.variables.program;
        name.as_fixed().map_or(Label::default(), |name| program.transaction_label(name))
    }

    /// The name of an element, if it is evaluated for each sample.
    pub(super) fn changing_label(&mut self, element: &Element, transaction: bool) -> Option<Text> {
        let name = text::parse(&element.name, &mut self.variables).ok()?;
        if name.as_fixed().is_some() {
            return None;
        }
        self.variables.program.labels.allow_runtime(transaction);
        Some(name)
    }

    /// The variable with the number of completed iterations of a loop or thread group, if the plan
    /// uses it.
    pub(super) fn index(&mut self, name: &str) -> Option<Variable> {
        let name = format!("__jm__{name}__idx");
        self.mentioned.contains(&name).then(|| self.variables.variable(&name))
    }
}

fn integral(text: &str) -> Option<i64> {
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
}

/// Names in a plan, collected before its translation.
#[derive(Default)]
struct Names {
    /// Variables that change while the plan runs.
    changed: BTreeSet<String>,
    /// All names after `${`.
    mentioned: BTreeSet<String>,
    /// Properties that `__setProperty` sets, or any.
    set_properties: BTreeSet<String>,
    sets_any_property: bool,
    /// A function or a controller reads variables by their names.
    reads_names: bool,
    /// Scripts run.
    with_scripts: bool,
    /// Folder of relative files.
    folder: PathBuf,
    /// Names of variables of the plan, and the scripts that may set any of them.
    defined: BTreeSet<String>,
    scripts: Vec<String>,
    /// A script may set any variable and property, whatever its text is.
    sets_anything: bool,
}

impl Names {
    /// Variables of the plan that a script names which may set any variable; all of them if there is
    /// a script without a known text.
    fn add_changed_by_scripts(&mut self) {
        self.sets_any_property |= self.sets_anything;
        let is_named = |name: &&String| {
            self.sets_anything || self.scripts.iter().any(|script| script.contains(*name))
        };
        let named: Vec<String> = self.defined.iter().filter(is_named).cloned().collect();
        self.changed.extend(named);
    }

    fn add_element(&mut self, element: &Element) {
        let listed = match element.class.as_str() {
            "CSVDataSet" => element.text("variableNames").split(',').collect(),
            "CounterConfig" => vec![element.text("CounterConfig.name")],
            "RandomVariableConfig" => vec![element.text("variableName")],
            "ForeachController" => {
                self.reads_names = true;
                vec![element.text("ForeachController.returnVal")]
            }
            "UserParameters" => element.properties.texts("UserParameters.names").collect(),
            _ => extractors::variables(element),
        };
        // Its input variables have numbers.
        self.reads_names |= element.class == "ForeachController";
        let variable = Some(element.text("Scope.variable")).filter(|name| !name.is_empty());
        let listed = listed.into_iter().chain(variable);
        self.changed.extend(listed.into_iter().map(|name| name.trim().to_owned()));
        self.text(&element.name);
        if self.with_scripts && scripts::is_script(element) {
            let source = Source::new(element, &self.folder);
            source.texts.iter().for_each(|text| self.script(text));
            self.sets_anything |= source.is_unknown;
        }
        // JavaScript, in which variables have their names.
        if element.class == "IfController" && !element.is("IfController.useExpression") {
            let condition = element.text("IfController.condition");
            self.reads_names |= condition.contains("vars");
            self.written(condition);
        }
        self.properties(&element.properties);
    }

    /// What a script in the helper may use and change.
    fn script(&mut self, script: &str) {
        if !self.with_scripts {
            return;
        }
        self.reads_names = true;
        // Names of variables that the Lab keeps only if the plan mentions them.
        let literals = script.split(['"', '\'']).filter(|text| text.ends_with("__idx"));
        self.mentioned.extend(literals.map(str::to_owned));
        self.written(script);
    }

    /// Variables and properties that a script may change.
    fn written(&mut self, script: &str) {
        let (names, any) = script_text::written_names(script);
        self.sets_any_property |= any && script.contains("props");
        if any {
            self.scripts.push(script.to_owned());
        }
        self.set_properties.extend(names.iter().cloned());
        self.changed.extend(names);
    }

    fn properties(&mut self, properties: &Properties) {
        if let Some(name) = properties.0.get("Argument.name").and_then(Property::text) {
            self.defined.insert(name.trim().to_owned());
        }
        properties.0.values().for_each(|property| self.property(property));
    }

    fn property(&mut self, property: &Property) {
        match property {
            Property::Text(text) => self.text(text),
            Property::List(items) => items.iter().for_each(|item| self.property(item)),
            Property::Element(properties) => self.properties(properties),
        }
    }

    fn text(&mut self, text: &str) {
        for found in text::references(text) {
            let Some(arguments) = found.arguments else {
                self.mentioned.insert(found.name.to_owned());
                continue;
            };
            if matches!(found.name, "__groovy" | "__BeanShell") {
                arguments.iter().for_each(|text| self.script(text));
                if let Some(name) = arguments.get(1) {
                    self.changed.insert(name.trim().to_owned());
                }
            }
            if matches!(found.name, "__javaScript" | "__jexl2" | "__jexl3")
                && let Some(script) = arguments.first()
            {
                self.written(script);
            }
            if found.name == "__setProperty" {
                let property = arguments.first().map_or("", |name| name.trim());
                if property.contains(['$', '\\']) {
                    self.sets_any_property = true;
                } else {
                    self.set_properties.insert(property.to_owned());
                }
            }
            self.sets_any_property |= found.name == "__javaScript" && text.contains("props");
            self.reads_names |= functions::reads_names(found.name, &arguments);
            let index = functions::variable_argument(found.name, arguments.len());
            if let Some(name) = index.and_then(|index| arguments.get(index)) {
                self.changed.insert(name.trim().to_owned());
            }
            if found.name == "__split"
                && let Some(name) = arguments.get(1)
            {
                self.changed.insert(format!("{}_n", name.trim()));
            }
        }
    }
}
