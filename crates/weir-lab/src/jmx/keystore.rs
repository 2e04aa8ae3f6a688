//! Keystore Configuration: the client certificates of a plan. The keystore itself is named by system
//! properties of JMeter (`-D`).

use super::translate::Translation;
use super::tree::{self, Element};
use crate::program::{Keystore, Text, keystore};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The system properties.
const FILE: &str = "javax.net.ssl.keyStore";
const KIND: &str = "javax.net.ssl.keyStoreType";
const PASSWORD: &str = "javax.net.ssl.keyStorePassword";

/// System properties that name a keystore.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct KeystoreProperties {
    file: Option<PathBuf>,
    kind: Option<String>,
    password: Option<String>,
}

impl fmt::Debug for KeystoreProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No secret.
        f.debug_struct("KeystoreProperties").field("file", &self.file).finish_non_exhaustive()
    }
}

impl KeystoreProperties {
    /// Those among system properties. The last value of a name counts.
    ///
    /// # Errors
    /// A property has another name. The message does not have its value, which may be a misspelt password.
    pub fn new(properties: &[(String, String)]) -> Result<Self, String> {
        let mut all = Self::default();
        for (name, value) in properties {
            match name.as_str() {
                // As in JMeter, no name is no keystore.
                FILE => all.file = Some(value).filter(|file| !file.is_empty()).map(Into::into),
                KIND => all.kind = Some(value.clone()),
                PASSWORD => all.password = Some(value.clone()),
                _ => {
                    return Err(format!(
                        "the Lab does not have the system property `{name}`: `-D` sets `{FILE}`, `{KIND}` and \
                         `{PASSWORD}`, and `-J` properties of the plan"
                    ));
                }
            }
        }
        Ok(all)
    }

    /// With a file relative to the folder of the plan, if it is in there.
    #[must_use]
    pub fn relative_to(mut self, plan: &Path) -> Self {
        let folder = plan.parent().unwrap_or(Path::new(""));
        self.file = self.file.map(|file| match file.strip_prefix(folder) {
            Ok(inside) => inside.to_owned(),
            Err(_) => file,
        });
        self
    }

    /// The opposite of [`Self::relative_to`].
    #[must_use]
    pub(crate) fn beside(mut self, plan: &Path) -> Self {
        self.file = self.file.map(|file| plan.with_file_name(file));
        self
    }
}

/// The selection of one element.
struct Selection<'e> {
    /// `None` without an element.
    element: Option<&'e Element>,
    /// First and last index.
    range: RangeInclusive<usize>,
    /// Name of the variable with the alias; may be empty.
    alias: String,
}

impl Translation<'_> {
    /// The keystore of a plan. An element applies to all samplers, wherever it is.
    pub(super) fn keystore(&mut self, plan: &Element, properties: &KeystoreProperties) {
        // JMeter's own start: without an element only the first entry is used.
        let mut selection = Selection { element: None, range: 0..=0, alias: String::new() };
        let mut is_loaded = false;
        for element in tree::reached(plan).into_iter().filter(|e| e.class == "KeystoreConfig") {
            let Some(range) = self.key_range(element) else { return };
            let alias = self.fixed(element, "clientCertAliasVarName");
            // JMeter loads the keystore once, also for later elements.
            if !is_loaded {
                selection = Selection { element: Some(element), range, alias };
            }
            is_loaded |= self.switch(element, "preload", false);
        }
        let element = selection.element.unwrap_or(plan);
        let entries = match &properties.file {
            // JMeter has an empty keystore then, in which no alias is found.
            None if selection.alias.is_empty() => return,
            None => Vec::new(),
            Some(file) => {
                let read = properties.read(file, &selection.range);
                let Some(entries) = self.valid(element, read) else { return };
                entries
            }
        };
        let alias = (!selection.alias.is_empty()).then(|| {
            let name = selection.alias.as_str();
            let constant = self.variables.constants.get(name).cloned();
            let variable = self.variables.variable(name);
            let constant = constant.map(|value| (variable, Text::fixed(value)));
            self.variables.program.initial.extend(constant);
            variable
        });
        self.variables.program.keystore = Some(Arc::new(Keystore { alias, entries }));
    }

    /// The indexes of an element; `None` if they are invalid.
    fn key_range(&mut self, element: &Element) -> Option<RangeInclusive<usize>> {
        let start = self.key_index(element, "startIndex", ("https.keyStoreStartIndex", 0));
        let end = self.key_index(element, "endIndex", ("https.keyStoreEndIndex", -1));
        let range = match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Err(_)) if end == -1 => Ok(start..=usize::MAX),
            (Ok(start), Ok(end)) if start <= end => Ok(start..=end),
            _ => Err(format!(
                "`startIndex` {start} and `endIndex` {end} select no keys: the first key has the index 0, \
                 `endIndex` is not smaller than `startIndex`, and -1 is that of the last key"
            )),
        };
        self.valid(element, range)
    }

    /// An index of an element. As in JMeter, a text that is no number is that of the property.
    fn key_index(
        &mut self,
        element: &Element,
        name: &str,
        (property, default): (&str, i32),
    ) -> i32 {
        let text = self.fixed(element, name);
        let property = self.variables.properties.get(property);
        let default = property.and_then(|text| text.trim().parse().ok()).unwrap_or(default);
        text.parse().unwrap_or(default)
    }
}

impl KeystoreProperties {
    /// Reads the selected entries of the file.
    fn read(
        &self,
        file: &Path,
        range: &RangeInclusive<usize>,
    ) -> Result<Vec<keystore::KeystoreEntry>, String> {
        // Java recognizes the format of these two by the content, whatever the name says.
        let kind = self.kind.as_deref().unwrap_or("PKCS12");
        let is_known = ["JKS", "PKCS12"].iter().any(|known| kind.eq_ignore_ascii_case(known));
        if !is_known || file.as_os_str().eq_ignore_ascii_case("NONE") {
            return Err(format!(
                "the Lab reads the keystore (`-D{FILE}`) from a file of the type PKCS12, not `{}` of the type \
                 `{kind}`",
                file.display()
            ));
        }
        let Some(password) = &self.password else {
            let file = file.display();
            return Err(format!(
                "the keystore `{file}` needs its password: `-D{PASSWORD}=PASSWORD`"
            ));
        };
        keystore::read(file, password, range).map_err(|error| match error {
            keystore::KeystoreError::Password(_) => format!("{error} (`-D{PASSWORD}`)"),
            error => format!("{error} (`-D{FILE}`)"),
        })
    }
}
