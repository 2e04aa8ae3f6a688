//! Schemas: services and messages of `.proto` files, and their methods by name.

use crate::bounded_file;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use weir_document::finding::nearest;

/// Largest `.proto` file.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Files of a schema, with all that they import.
pub(super) const MAX_FILES: usize = 1_000;

/// Why a schema or one of its methods cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// The error.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
    /// A file of the configuration does not exist.
    pub is_missing_file: bool,
}

impl SchemaError {
    pub(crate) fn new(message: impl Into<String>, help: Option<String>) -> Self {
        Self { message: message.into(), help, is_missing_file: false }
    }
}

/// Finds imported files in folders, in this order.
struct Folders {
    folders: Vec<PathBuf>,
    opened: Cell<usize>,
}

impl Folders {
    /// The path in a folder, and the name by which other files import it.
    fn find(&self, name: &str) -> Option<(PathBuf, String)> {
        let mut candidates = self.folders.iter().map(|folder| folder.join(name));
        let path = candidates.find(|path| path.is_file())?;
        let inner = self.folders.iter().filter_map(|folder| path.strip_prefix(folder).ok());
        let shortest = inner.min_by_key(|name| name.components().count())?;
        Some((path.clone(), shortest.to_str()?.to_owned()))
    }
}

impl FileResolver for Folders {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let (path, _) = self.find(name).ok_or_else(|| protox::Error::file_not_found(name))?;
        self.opened.set(self.opened.get() + 1);
        if self.opened.get() > MAX_FILES {
            return Err(protox::Error::new(format!("a schema has at most {MAX_FILES} files")));
        }
        let text = bounded_file::read_text(&path, MAX_FILE_BYTES);
        File::from_source(name, &text.map_err(protox::Error::new)?)
    }
}

/// Compiles `.proto` files. Files and import paths are relative to `folder`, which is the last import path.
pub(crate) fn compile(
    folder: &Path,
    (files, imports): (&[String], &[String]),
) -> Result<DescriptorPool, SchemaError> {
    let folders = imports.iter().map(|import| folder.join(import)).chain([folder.to_owned()]);
    let folders = Folders { folders: folders.collect(), opened: Cell::new(0) };
    let missing = |file: &String| {
        let help = "paths are relative to the folder of the scenario, or to one of `import_paths`";
        let error = SchemaError::new(format!("`{file}` does not exist"), Some(help.to_owned()));
        SchemaError { is_missing_file: true, ..error }
    };
    let named = |file: &String| Ok(folders.find(file).ok_or_else(|| missing(file))?.1);
    let names = files.iter().map(named).collect::<Result<Vec<String>, SchemaError>>()?;
    let mut resolver = ChainFileResolver::new();
    resolver.add(folders);
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    let compiled = compiler.open_files(&names).map_err(|error| {
        // As `FILE:LINE:COLUMN: MESSAGE`, except at the end of a file.
        let text = format!("{error:?}");
        let file = error.file().filter(|file| !text.starts_with(file));
        file.map_or(text.clone(), |file| format!("{file}: {text}"))
    });
    match compiled {
        Ok(compiler) => Ok(compiler.descriptor_pool()),
        Err(why) => {
            let import = why.contains("import '").then(|| {
                "name the folder of the imported file: `grpc: {import_paths: [protos]}`".to_owned()
            });
            Err(SchemaError::new(why, import))
        }
    }
}

/// Service and method of `package.Service/Method`.
pub(crate) fn parts(path: &str) -> Option<(&str, &str)> {
    let (service, method) = path.split_once('/')?;
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    (service.split('.').all(is_name) && is_name(method)).then_some((service, method))
}

/// The method with this path.
pub(crate) fn method(pool: &DescriptorPool, path: &str) -> Result<MethodDescriptor, SchemaError> {
    let (service, method) = parts(path).unwrap_or((path, ""));
    let Some(found) = pool.get_service_by_name(service) else {
        let names: Vec<String> = pool.services().map(|s| s.full_name().to_owned()).collect();
        let message = format!("the schema has no service `{service}`");
        return Err(SchemaError::new(message, suggested(service, &names, "services")));
    };
    found.methods().find(|known| known.name() == method).ok_or_else(|| {
        let names: Vec<String> = found.methods().map(|m| m.name().to_owned()).collect();
        let message = format!("`{service}` has no method `{method}`");
        SchemaError::new(message, suggested(method, &names, "methods"))
    })
}

/// The nearest name, or some of all names.
pub(super) fn suggested(name: &str, known: &[String], what: &str) -> Option<String> {
    const SHOWN: usize = 10;
    if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
        return Some(format!("did you mean `{near}`?"));
    }
    let shown: Vec<&str> = known.iter().take(SHOWN).map(String::as_str).collect();
    let more = if known.len() > SHOWN { ", …" } else { "" };
    (!shown.is_empty()).then(|| format!("{what} are {}{more}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = "syntax = \"proto3\"; package shop; import \"common/money.proto\";\n\
        message Order { string id = 1; Money price = 2; }\n\
        service Orders { rpc Get(Order) returns (Order); rpc Watch(Order) returns (stream Order); }\n";
    const MONEY: &str = "syntax = \"proto3\"; package shop; import \"google/protobuf/timestamp.proto\";\n\
        message Money { int64 cents = 1; google.protobuf.Timestamp at = 2; }\n";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn compiled(files: &[(&str, &str)], proto: &str, imports: &[&str]) -> Result<String, String> {
        let folder = folder(files);
        let imports: Vec<String> = imports.iter().map(|path| (*path).to_owned()).collect();
        let pool = compile(folder.path(), (&[proto.to_owned()], &imports));
        let pool =
            pool.map_err(|error| format!("{error}|{}", error.help.as_deref().unwrap_or_default()))?;
        let found = method(&pool, "shop.Orders/Watch").map_err(|error| error.message)?;
        Ok(format!("{} {}", found.input().full_name(), found.is_server_streaming()))
    }

    #[test]
    fn files_import_others() {
        let files = [("shop.proto", SHOP), ("common/money.proto", MONEY)];
        assert_eq!(compiled(&files, "shop.proto", &[]).unwrap(), "shop.Order true");
        let files = [("p/shop.proto", SHOP), ("p/common/money.proto", MONEY)];
        for file in ["shop.proto", "p/shop.proto"] {
            assert_eq!(compiled(&files, file, &["p"]).unwrap(), "shop.Order true", "{file}");
        }
    }

    #[test]
    fn errors_have_file_and_line() {
        let missing = compiled(&[("shop.proto", SHOP)], "shop.proto", &[]).unwrap_err();
        assert_eq!(
            missing,
            "shop.proto:1:34: import 'common/money.proto' not found|name the folder of the imported \
             file: `grpc: {import_paths: [protos]}`"
        );
        let wrong = "syntax = \"proto3\";\nmessage A { B b = 1; }";
        let wrong = compiled(&[("a.proto", wrong)], "a.proto", &[]).unwrap_err();
        assert_eq!(wrong, "a.proto:2:13: name 'B' is not defined|");
        let cut = compiled(&[("a.proto", "message A {")], "a.proto", &[]).unwrap_err();
        assert!(cut.starts_with("a.proto: expected a message field"), "{cut}");
        let none = compiled(&[], "a.proto", &[]).unwrap_err();
        assert!(none.starts_with("`a.proto` does not exist|paths are relative"), "{none}");
    }

    #[test]
    fn unknown_methods_have_near_names() {
        let folder = folder(&[("shop.proto", SHOP), ("common/money.proto", MONEY)]);
        let pool = compile(folder.path(), (&["shop.proto".to_owned()], &[])).unwrap();
        let wrong = |path: &str| {
            let error = method(&pool, path).unwrap_err();
            format!("{error}: {}", error.help.as_deref().unwrap_or_default())
        };
        assert_eq!(
            wrong("shop.Order/Get"),
            "the schema has no service `shop.Order`: did you mean `shop.Orders`?"
        );
        assert_eq!(
            wrong("shop.Orders/Got"),
            "`shop.Orders` has no method `Got`: did you mean `Get`?"
        );
        assert_eq!(
            wrong("shop.Orders/Remove"),
            "`shop.Orders` has no method `Remove`: methods are Get, Watch"
        );
        assert_eq!(parts("shop.Orders.Get"), None);
        assert_eq!(parts("/shop.Orders/Get"), None);
        assert_eq!(parts("Orders/Get"), Some(("Orders", "Get")));
    }
}
