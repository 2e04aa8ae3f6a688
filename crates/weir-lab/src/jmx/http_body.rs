//! Bodies of samplers: arguments in the query or as a form, raw bodies, files, parts.

use super::http::Settings;
use super::translate::Translation;
use super::tree::{Element, Lookup as _, Properties, Property};
use crate::form::decode;
use crate::program::{Body, Part, Text, TextPart};
use bytes::Bytes;
use std::path::PathBuf;

/// Largest sent file.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Query and body made of arguments and files.
pub(super) struct Content {
    /// The query.
    pub(super) query: Option<Text>,
    /// The body.
    pub(super) body: Body,
    /// Content type, unless set by a header manager.
    pub(super) content_type: Option<String>,
}

/// An argument.
struct Argument {
    name: Text,
    value: Text,
    /// Encode name and value.
    encode: bool,
    /// Write `=` even without a value.
    equals: bool,
}

/// A file to send.
struct File {
    path: PathBuf,
    name: Text,
    mime: String,
    content: Bytes,
}

/// Query and body of a sampler, as in JMeter.
pub(super) fn content(
    translation: &mut Translation<'_>,
    settings: &Settings<'_>,
    method: &str,
) -> Content {
    let arguments = arguments(translation, settings);
    let files = files(translation, settings);
    let raw = settings.switch(translation, "HTTPSampler.postBodyRaw", false);
    let nameless = arguments.iter().all(|argument| argument.name.as_fixed() == Some(""));
    let in_query = matches!(method, "GET" | "DELETE" | "OPTIONS");
    let has_body = matches!(method, "POST" | "PUT" | "PATCH" | "DELETE");
    let query = if in_query { query(&arguments) } else { None };
    let multipart = settings.switch(translation, "HTTPSampler.DO_MULTIPART_POST", false);
    let is_file_body = files.len() == 1 && files[0].name.as_fixed() == Some("");
    let content = |body, content_type: Option<&str>| Content {
        query: query.clone(),
        body,
        content_type: content_type.filter(|text| !text.is_empty()).map(str::to_owned),
    };
    if has_body && is_file_body && !multipart {
        let file = &files[0];
        return content(Body::Bytes(file.content.clone()), Some(&file.mime));
    }
    if method == "POST" && (multipart || !files.is_empty()) {
        return content(Body::Multipart(parts(arguments, files)), None);
    }
    if !arguments.is_empty() && (raw || nameless) && (has_body || method == "GET") {
        let values = arguments.iter().flat_map(|argument| argument.value.clone());
        return content(Text::from_parts(values).into(), Some("text/plain; charset=UTF-8"));
    }
    if has_body {
        let form = Text::from_parts(form(&arguments));
        return content(form.into(), Some("application/x-www-form-urlencoded; charset=UTF-8"));
    }
    content(Body::None, None)
}

fn arguments(translation: &mut Translation<'_>, settings: &Settings<'_>) -> Vec<Argument> {
    let mut arguments = Vec::new();
    for element in &settings.elements {
        let Some(list) = element.properties.element("HTTPsampler.Arguments") else { continue };
        for argument in list.items("Arguments.arguments") {
            if let Property::Element(argument) = argument {
                arguments.push(self::argument(translation, element, argument));
            }
        }
    }
    arguments
}

fn argument(
    translation: &mut Translation<'_>,
    element: &Element,
    argument: &Properties,
) -> Argument {
    let encode = argument.text("HTTPArgument.always_encode").to_owned();
    let encode = translation.fixed_text(element, &encode, "HTTPArgument.always_encode");
    Argument {
        name: translation.text(element, argument.text("Argument.name")),
        value: translation.text(element, argument.text("Argument.value")),
        encode: encode == "true",
        equals: argument.text("Argument.metadata") == "="
            || argument.text("HTTPArgument.use_equals") == "true",
    }
}

/// `name=value&…`; arguments without a name are left out.
fn query(arguments: &[Argument]) -> Option<Text> {
    let mut parts = Vec::new();
    for argument in arguments.iter().filter(|argument| argument.name.as_fixed() != Some("")) {
        if !parts.is_empty() {
            parts.push("&".into());
        }
        let encoded =
            |text: &Text| if argument.encode { text.form_encoded() } else { text.clone() };
        parts.extend(encoded(&argument.name));
        if argument.equals || argument.value.as_fixed() != Some("") {
            parts.push("=".into());
        }
        parts.extend(encoded(&argument.value));
    }
    (!parts.is_empty()).then(|| Text::from_parts(parts))
}

/// The same as a body: all arguments are encoded, already encoded ones only once.
fn form(arguments: &[Argument]) -> Vec<TextPart> {
    let mut parts = Vec::new();
    for argument in arguments.iter().filter(|argument| argument.name.as_fixed() != Some("")) {
        if !parts.is_empty() {
            parts.push("&".into());
        }
        let once = |text: &Text| match (argument.encode, text.as_fixed()) {
            (false, Some(fixed)) => Text::fixed(decode(fixed)).form_encoded(),
            _ => text.form_encoded(),
        };
        parts.extend(once(&argument.name));
        parts.push("=".into());
        parts.extend(once(&argument.value));
    }
    parts
}

fn files(translation: &mut Translation<'_>, settings: &Settings<'_>) -> Vec<File> {
    let element = settings.elements[0];
    let Some(list) = element.properties.element("HTTPsampler.Files") else { return Vec::new() };
    let mut files = Vec::new();
    for file in list.items("HTTPFileArgs.files") {
        let Property::Element(file) = file else { continue };
        let path = translation.fixed_text(element, file.text("File.path"), "File.path");
        if path.is_empty() {
            continue;
        }
        let path = translation.variables.folder.join(path);
        match crate::bounded_file::read(&path, MAX_FILE_BYTES) {
            Ok(content) => files.push(File {
                name: translation.text(element, file.text("File.paramname")),
                mime: translation.fixed_text(element, file.text("File.mimetype"), "File.mimetype"),
                path,
                content: content.into(),
            }),
            Err(error) => translation.invalid(element, &error.to_string()),
        }
    }
    files
}

fn parts(arguments: Vec<Argument>, files: Vec<File>) -> Vec<Part> {
    let fields = arguments.into_iter().filter(|argument| argument.name.as_fixed() != Some(""));
    let fields = fields.map(|argument| Part::Field {
        name: argument.name,
        value: argument.value,
        content_type: Some("text/plain; charset=UTF-8".to_owned()),
    });
    let files = files.into_iter().map(|file| Part::File {
        name: file.name,
        path: file.path,
        content_type: match file.mime.as_str() {
            "" => "application/octet-stream".to_owned(),
            mime => mime.to_owned(),
        },
        content: file.content,
    });
    fields.chain(files).collect()
}
