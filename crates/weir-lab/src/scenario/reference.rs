//! The reference document of scenarios, from the description of their keys.

use super::keys::ROOT;
use weir_document::reference::section;

const HEAD: &str = "\
# Scenario reference

All keys of the scenarios of `weir lab`, generated from the descriptions that also validate scenarios and yield the JSON
Schema (`weir lab schema`). A test compares this file with the program. The [guide](../guide/scenarios.md) is ordered by task.

A scenario is YAML 1.2 or JSON. Units are part of a value: times `500ms`, `15s`, `5m`, `1h`, sizes `512B`, `64KiB`,
`10MiB`, rates `100/s`, `30/min`. Instead of any value, also of a number or a boolean, `${name}` is possible:
[variables](../guide/scenarios.md#variables). Relative files refer to the folder of the scenario.
";

/// Every key with type, default and meaning, as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut out = HEAD.to_owned();
    for shape in ROOT.all() {
        section(&mut out, shape);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_reference_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenario.md");
        let text = super::reference();
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &text).expect("writable");
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(known == text, "{} is not current: WEIR_BLESS=1 rewrites it", path.display());
    }
}
