//! Scripts of JMeter plans that run in the helper JVM.

use super::Variable;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Index into [`Scripts::elements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptId(pub u32);

/// A JMeter installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Its folder, with `bin`, `lib` and `lib/ext`.
    pub home: PathBuf,
}

impl Installation {
    /// The installation in a folder.
    ///
    /// # Errors
    /// The folder is no installation of JMeter, with what is missing.
    pub fn at(home: PathBuf) -> Result<Self, String> {
        for part in ["bin/ApacheJMeter.jar", "bin/jmeter.properties", "lib/ext"] {
            if !home.join(part).exists() {
                let home = home.display();
                return Err(format!("{home} is no installation of JMeter: it has no {part}"));
            }
        }
        // The helper runs in the folder of the plan.
        Ok(Self { home: home.canonicalize().unwrap_or(home) })
    }
}

/// All scripts of a plan.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// The JMeter installation whose classes run them.
    pub installation: Installation,
    /// The plan's file.
    pub plan: PathBuf,
    /// Jars and folders of the plan on the class path, behind those of the installation.
    pub class_path: Vec<PathBuf>,
    /// Elements and functions.
    pub elements: Vec<ScriptElement>,
    /// Variables for the results of functions.
    pub results: BTreeMap<ScriptId, Variable>,
    /// A script reads the sample before it, whatever its sampler is.
    pub reads_previous: bool,
    /// File for what scripts log and print; the standard error output if `None`.
    pub log: Option<PathBuf>,
}

/// Role of a [`ScriptElement`], as in frames to the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRole {
    /// A sampler.
    Sampler = 1,
    /// A pre-processor.
    PreProcessor = 2,
    /// A post-processor.
    PostProcessor = 3,
    /// An assertion.
    Assertion = 4,
    /// A timer.
    Timer = 5,
    /// A text with a function.
    Function = 6,
    /// A listener.
    Listener = 7,
    /// An HTTP sampler that scripts see and change.
    HttpSampler = 8,
}

/// An element of JMeter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptElement {
    /// Its role.
    pub role: ScriptRole,
    /// Its class, or the text of a function.
    pub class: String,
    /// Its name.
    pub name: String,
    /// Its properties.
    pub properties: Vec<(String, String)>,
    /// Arguments of an HTTP sampler: name, value, whether it is encoded, `=`.
    pub arguments: Vec<[String; 4]>,
    /// Fields of an HTTP sampler.
    pub headers: Vec<(String, String)>,
}

/// A script before a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptStep {
    /// The script.
    pub script: ScriptId,
    /// The HTTP sampler.
    pub sampler: Option<ScriptId>,
    /// The first one before the sampler.
    pub is_first: bool,
    /// The request is the one that the scripts have made of the sampler.
    pub changes_request: bool,
}

/// Scripts after a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AfterScripts {
    /// The HTTP sampler.
    pub sampler: Option<ScriptId>,
    /// Each is before the extractor with this index.
    pub processors: Vec<(usize, ScriptId)>,
    /// Each is before the check with this index.
    pub checks: Vec<(usize, ScriptId)>,
    /// After all checks.
    pub listeners: Vec<ScriptId>,
}

impl AfterScripts {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.processors.is_empty() && self.checks.is_empty() && self.listeners.is_empty()
    }
}
