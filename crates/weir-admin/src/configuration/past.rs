//! Configurations that were in force, and what each changed.

use super::{ConfigurationFile, FindingInfo, MAX_FINDINGS};
use crate::tokens;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_document::difference;
use weir_document::finding::Findings;
use weir_gateway::digest::ConfigurationDigest;
use weir_model::UnixMicros;
use weir_store::configurations::{Entry, KeptFile};
use weir_tracker::document::Nodes;

/// Characters of a changed value.
const MAX_VALUE_CHARS: usize = 2000;
/// Changed values shown of a file.
const MAX_CHANGES: usize = 500;

/// A configuration that was put in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastConfiguration {
    /// Its number in the history of the node.
    pub number: i64,
    /// Since when (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub time: UnixMicros,
    /// When another one was put in force; absent in the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub until: Option<UnixMicros>,
    /// Trigger: `start`, `files` (changed files), `signal`, `fleet` (a rollout), or the name of a token.
    pub by: String,
    /// First 12 digits of the digest: the transactions that it handled have this in `configuration`.
    pub configuration: String,
    /// Digest: SHA-256, 64 hexadecimal digits.
    pub digest: String,
    /// Version of the fleet's configuration; absent with own files only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Number of findings, all of them warnings.
    pub findings: usize,
    /// Name of the node of the fleet, in a query over nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// Configurations that were in force, the last one first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationHistory {
    /// The configurations.
    pub configurations: Vec<PastConfiguration>,
    /// There are earlier ones.
    pub more: bool,
    /// The nodes that they are from, in a query over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// A configuration with its files, and what it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastConfigurationDetails {
    /// The configuration.
    pub configuration: PastConfiguration,
    /// Its findings, all of them warnings.
    pub findings: Vec<FindingInfo>,
    /// Its files, in the order of reading.
    pub files: Vec<KeptFile>,
    /// The one that it is compared with; absent in the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<PastConfiguration>,
    /// The files that differ.
    pub changes: Vec<FileChange>,
}

/// What changed in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChange {
    /// Path of the file.
    pub path: String,
    /// `added`, `removed` or `changed`.
    pub change: String,
    /// The changed values, at most 500; empty if it is no YAML, or its text was not kept.
    pub values: Vec<ValueChange>,
    /// Number of changed values that are not shown.
    pub more: usize,
    /// The changed lines as a unified diff; empty if the text was not kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// A changed value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValueChange {
    /// Where: `apis.orders.routes[get /orders].timeout`.
    pub path: String,
    /// The value before; absent if it was added. A mapping or list is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The value after; absent if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A configuration in force from now on, for the history.
#[must_use]
pub fn kept(
    by: &str,
    version: Option<i64>,
    digest: &ConfigurationDigest,
    found: &Findings,
) -> (Entry, Vec<KeptFile>) {
    let texts =
        ConfigurationFile::all(found).into_iter().map(|ConfigurationFile { path, text }| {
            let text = difference::with_equal_stars(&text);
            KeptFile { path, sha256: tokens::hash(&text), text: Some(text) }
        });
    let others = digest.other_files.iter().map(|file| KeptFile {
        path: file.name.clone(),
        text: None,
        sha256: file.sha256.clone(),
    });
    let entry = Entry {
        digest: digest.hex().to_owned(),
        at: UnixMicros(weir_store::clock::now_us()),
        by: by.to_owned(),
        version,
        findings: serde_json::to_string(&FindingInfo::all(found)).unwrap_or_default(),
        ..Entry::default()
    };
    (entry, texts.chain(others).collect())
}

impl From<Entry> for PastConfiguration {
    fn from(entry: Entry) -> Self {
        let findings = findings(&entry).len();
        let Entry { number, digest, at, until, by, version, .. } = entry;
        Self {
            number,
            time: at,
            until,
            by,
            configuration: ConfigurationDigest::shortened(&digest).to_owned(),
            digest,
            version,
            findings,
            node: String::new(),
        }
    }
}

fn findings(entry: &Entry) -> Vec<FindingInfo> {
    let mut all: Vec<FindingInfo> = serde_json::from_str(&entry.findings).unwrap_or_default();
    all.truncate(MAX_FINDINGS);
    all
}

impl PastConfigurationDetails {
    /// A configuration, and what it changed in another one.
    pub(crate) fn new(
        (entry, files): (Entry, Vec<KeptFile>),
        compared: Option<(Entry, Vec<KeptFile>)>,
    ) -> Self {
        let changes = compared.as_ref().map(|(_, before)| file_changes(before, &files));
        Self {
            findings: findings(&entry),
            configuration: entry.into(),
            files,
            compared: compared.map(|(entry, _)| entry.into()),
            changes: changes.unwrap_or_default(),
        }
    }
}

/// What changed between two configurations, in the order of the files of the later one.
fn file_changes(before: &[KeptFile], after: &[KeptFile]) -> Vec<FileChange> {
    let mut rest: Vec<&KeptFile> = before.iter().collect();
    let mut take = |is: &dyn Fn(&KeptFile) -> bool| {
        let at = rest.iter().position(|one| is(one))?;
        Some(rest.remove(at))
    };
    // Equal paths first: another file may have the same name.
    let mut pairs: Vec<(Option<&KeptFile>, &KeptFile)> =
        after.iter().map(|file| (take(&|one| one.path == file.path), file)).collect();
    for (old, file) in &mut pairs {
        // Each version of the fleet has its own folder.
        if old.is_none() {
            *old = take(&|one| name(&one.path) == name(&file.path));
        }
    }
    let changed = pairs.into_iter().filter_map(|(old, file)| file_change(old, Some(file)));
    let mut all: Vec<FileChange> = changed.collect();
    all.extend(rest.into_iter().filter_map(|file| file_change(Some(file), None)));
    all
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn file_change(before: Option<&KeptFile>, after: Option<&KeptFile>) -> Option<FileChange> {
    let change = match (before, after) {
        (Some(before), Some(after))
            if (&before.text, &before.sha256) == (&after.text, &after.sha256) =>
        {
            return None;
        }
        (Some(_), Some(_)) => "changed",
        (None, _) => "added",
        (_, None) => "removed",
    };
    let path = after.or(before)?.path.clone();
    let text = |file: Option<&KeptFile>| match file {
        Some(file) => file.text.clone(),
        None => Some(String::new()),
    };
    let mut result = FileChange { path, change: change.to_owned(), ..FileChange::default() };
    if let (Some(before), Some(after)) = (text(before), text(after)) {
        let values = difference::changes(&before, &after).unwrap_or_default();
        result.more = values.len().saturating_sub(MAX_CHANGES);
        result.values = values.into_iter().take(MAX_CHANGES).map(ValueChange::from).collect();
        result.diff = difference::unified(&before, &after);
    }
    Some(result)
}

impl From<difference::Change> for ValueChange {
    fn from(change: difference::Change) -> Self {
        let text = |value: serde_json::Value| {
            let text = match value {
                serde_json::Value::String(text) => text,
                value => value.to_string(),
            };
            match text.char_indices().nth(MAX_VALUE_CHARS) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        let difference::Change { path, before, after } = change;
        Self { path, before: before.map(text), after: after.map(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, text: &str) -> KeptFile {
        let sha256 = crate::tokens::hash(text);
        KeptFile { path: path.to_owned(), text: Some(text.to_owned()), sha256 }
    }

    fn script(path: &str, sha256: &str) -> KeptFile {
        KeptFile { path: path.to_owned(), text: None, sha256: sha256.to_owned() }
    }

    #[test]
    fn files_are_compared_by_path_or_by_name_where_each_version_has_a_folder() {
        let before = [
            text("/v/1/weir.yaml", "limits: {body: 1MiB}\nport: 1\n"),
            text("/v/1/old.yaml", "a: 1\n"),
            script("map.js", "1"),
            script("same.js", "1"),
        ];
        let after = [
            text("/v/2/weir.yaml", "limits: {body: 2MiB}\nport: 1\n"),
            text("/v/2/new.yaml", "b: 1\n"),
            script("map.js", "2"),
            script("same.js", "1"),
        ];
        let changes = file_changes(&before, &after);
        let seen = changes.iter().map(|one| (one.path.as_str(), one.change.as_str()));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                ("/v/2/weir.yaml", "changed"),
                ("/v/2/new.yaml", "added"),
                ("map.js", "changed"),
                ("/v/1/old.yaml", "removed")
            ]
        );
        let [body] = &changes[0].values[..] else { panic!("{changes:?}") };
        assert_eq!(body.path, "limits.body");
        assert_eq!((body.before.as_deref(), body.after.as_deref()), (Some("1MiB"), Some("2MiB")));
        assert!(changes[0].diff.contains("-limits: {body: 1MiB}"), "{}", changes[0].diff);
        assert!(changes[2].values.is_empty() && changes[2].diff.is_empty());
    }

    #[test]
    fn a_file_is_paired_with_the_one_of_its_path_and_one_without_text_by_its_digest() {
        let before = [text("b/routes.yaml", "a: 1\n")];
        let after = [text("a/routes.yaml", "a: 2\n"), text("b/routes.yaml", "a: 1\n")];
        let changes = file_changes(&before, &after);
        let seen = changes.iter().map(|one| (one.path.as_str(), one.change.as_str()));
        assert_eq!(seen.collect::<Vec<_>>(), [("a/routes.yaml", "added")]);
        let long = |sha256| [script("weir.yaml", sha256)];
        assert_eq!(file_changes(&long("1"), &long("2"))[0].change, "changed");
    }

    #[test]
    fn what_is_kept_has_a_digest_and_not_the_length_of_a_secret() {
        let of = |secret: &str| {
            let text = format!(
                "apis: {{a: {{base: /, resubmit: {{headers: {{set: {{authorization: {secret}}}}}}}, \
                 routes: [{{get: /, reply: {{text: x}}}}]}}}}\n"
            );
            let found = match weir_config::load_text("weir.yaml", &text).finish() {
                Ok((_, found)) | Err(found) => found,
            };
            kept("start", None, &ConfigurationDigest::default(), &found).1
        };
        let files = of("hush");
        assert!(files[0].text.as_ref().unwrap().contains("authorization: ***}"), "{files:?}");
        assert_eq!(files[0].sha256.len(), 64);
        assert_eq!(files, of("hush-hush-hush"));
    }

    #[test]
    fn long_values_are_cut_and_many_changes_are_counted() {
        let many: String = (0..MAX_CHANGES + 5).map(|at| format!("k{at}: 1\n")).collect();
        let long = format!("a: {}\n", "é".repeat(MAX_VALUE_CHARS + 1));
        let [change] = &file_changes(&[text("a", "")], &[text("a", &long)])[..] else { panic!() };
        assert_eq!(change.values[0].after.as_ref().unwrap().chars().count(), MAX_VALUE_CHARS + 1);
        let old: String = (0..MAX_CHANGES + 5).map(|at| format!("k{at}: 2\n")).collect();
        let [change] = &file_changes(&[text("a", &old)], &[text("a", &many)])[..] else { panic!() };
        assert_eq!((change.values.len(), change.more), (MAX_CHANGES, 5));
    }
}
