//! The digest of a configuration: which one a node runs, and which one handled a transaction.

use aws_lc_rs::digest::{Context, SHA256, digest};
use data_encoding::HEXLOWER;
use std::path::Path;
use weir_config::Config;
use weir_document::difference::with_equal_stars;
use weir_document::finding::Findings;

/// Extensions of files beside the configuration that are part of its digest. Others may have secrets.
const DIGESTED: [&str; 6] = ["js", "mjs", "ts", "json", "yaml", "yml"];
/// The text of a node's name, if it is an option.
const OWN_NAME: &str = "--set fleet.node";
/// Characters of the short form, as in Git.
const SHORT: usize = 12;

/// The digest of a configuration: SHA-256 of its texts with redacted secrets, and of the scripts,
/// schemas and documents that it reads. Equal on nodes with the same files, wherever those are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationDigest {
    hex: String,
    /// Digests of the files that are not texts of the configuration.
    pub other_files: Vec<FileDigest>,
}

/// The digest of a script, schema or document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Name of the file, without its folder.
    pub name: String,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}

impl ConfigurationDigest {
    /// The digest of a loaded configuration with its texts.
    pub(crate) fn new(config: &Config, found: &Findings) -> Self {
        let mut sum = Context::new(&SHA256);
        let mut add = |name: &str, content: &[u8]| {
            for part in [name.as_bytes(), content] {
                sum.update(&(part.len() as u64).to_be_bytes());
                sum.update(part);
            }
        };
        let mut texts: Vec<&Path> = Vec::new();
        for (path, text) in found.sources() {
            texts.push(path);
            // Each node has its own name.
            if path != Path::new(OWN_NAME) {
                add(&name(path), with_equal_stars(text).as_bytes());
            }
        }
        let mut other_files = Vec::new();
        for path in &config.sources {
            let extension = path.extension().and_then(|text| text.to_str()).unwrap_or_default();
            // A file that has just been removed is found by the next reload.
            if DIGESTED.contains(&extension)
                && !texts.iter().any(|text| path.ends_with(text))
                && let Ok(content) = std::fs::read(path)
            {
                let name = name(path);
                add(&name, &content);
                let sha256 = HEXLOWER.encode(digest(&SHA256, &content).as_ref());
                other_files.push(FileDigest { name, sha256 });
            }
        }
        Self { hex: HEXLOWER.encode(sum.finish().as_ref()), other_files }
    }

    /// The digest, 64 hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// The first 12 digits, which transactions are recorded with.
    pub fn short(&self) -> &str {
        Self::shortened(&self.hex)
    }

    /// The first 12 digits of a digest.
    pub fn shortened(hex: &str) -> &str {
        hex.get(..SHORT).unwrap_or(hex)
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
