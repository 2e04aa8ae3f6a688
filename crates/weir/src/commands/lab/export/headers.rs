//! Header fields of requests to receivers, from a file or from the environment: credentials are on no command
//! line.

use anyhow::{Context, bail, ensure};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest file.
const MAX_BYTES: u64 = 64 << 10;

/// The fields of a file: `Name: value` in each line, `#` for comments.
///
/// # Errors
/// The file cannot be read, or a line is no field. Errors have the number of the line, not its content.
pub(super) fn of_file(path: &Path) -> anyhow::Result<HeaderMap> {
    let place = || path.display().to_string();
    let mut text = String::new();
    let file = File::open(path).with_context(place)?;
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(place)?;
    ensure!(read as u64 <= MAX_BYTES, "{} is larger than 64 KiB", path.display());
    let mut headers = HeaderMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = || format!("{}: line {}", path.display(), number + 1);
        let field =
            line.split_once(':').with_context(|| format!("{}: write `Name: value`", at()))?;
        add(&mut headers, field).with_context(at)?;
    }
    Ok(headers)
}

/// The fields of the first of these variables that is set: `name=value,name=value`, percent-encoded, as
/// OpenTelemetry specifies for `OTEL_EXPORTER_OTLP_HEADERS`.
///
/// # Errors
/// The variable contains something else. Errors have its name, not its content.
pub(super) fn of_environment(variables: &[&str]) -> anyhow::Result<HeaderMap> {
    for name in variables {
        match std::env::var(name) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => return of_text(&text).with_context(|| (*name).to_owned()),
            Err(std::env::VarError::NotPresent) => {}
            Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not UTF-8"),
        }
    }
    Ok(HeaderMap::new())
}

fn of_text(text: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=').context("write name=value,name=value")?;
        let value = percent_decode_str(value.trim()).decode_utf8();
        add(&mut headers, (name, &value.context("a value is not UTF-8")?))?;
    }
    Ok(headers)
}

fn add(headers: &mut HeaderMap, (name, value): (&str, &str)) -> anyhow::Result<()> {
    let name = HeaderName::try_from(name.trim()).context("not the name of a header field")?;
    let mut value = HeaderValue::try_from(value.trim())
        .with_context(|| format!("{name}: the value has characters that a field cannot have"))?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_from_files_and_from_the_environment() {
        let dir = std::env::temp_dir().join(format!("weir-headers-{}", std::process::id()));
        std::fs::write(
            &dir,
            "# for the collector\nAuthorization: Bearer a:b\n\nX-Scope-OrgID: 7\n",
        )
        .expect("a file");
        let headers = of_file(&dir).expect("fields");
        assert_eq!(
            (&headers["authorization"], &headers["x-scope-orgid"]),
            (&"Bearer a:b".parse().expect("v"), &"7".parse().expect("v"))
        );
        std::fs::write(&dir, "a: b\nnothing hidden\n").expect("a file");
        let error = format!("{:#}", of_file(&dir).expect_err("no field"));
        assert!(
            error.contains("line 2: write `Name: value`") && !error.contains("hidden"),
            "{error}"
        );
        std::fs::remove_file(&dir).expect("it is there");
        let headers = of_text("api-key=a%20b, x=y=z").expect("fields");
        assert_eq!(
            (&headers["api-key"], &headers["x"]),
            (&"a b".parse().expect("v"), &"y=z".parse().expect("v"))
        );
        for wrong in ["secret", "a b=secret", "a=%00secret"] {
            let error = format!("{:#}", of_text(wrong).expect_err(wrong));
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
