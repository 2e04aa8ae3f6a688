//! Bodies of samplers: arguments in the query or as a form, raw bodies, files, parts.

use super::http::Settings;
use super::translate::Translation;
use super::tree::{Element, Properties};
use crate::form::decode;
use crate::program::{Body, Part, PartContent, Text};

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

impl Translation<'_> {
    /// Query and body of a sampler, as in JMeter.
    pub(super) fn content(&mut self, settings: &Settings<'_>, method: &str) -> Content {
        let arguments = self.arguments(settings);
        let files = self.files(settings);
        let raw = settings.switch(self, "HTTPSampler.postBodyRaw", false);
        let nameless = arguments.iter().all(|argument| argument.name.is_empty());
        let in_query = matches!(method, "GET" | "DELETE" | "OPTIONS");
        let has_body = matches!(method, "POST" | "PUT" | "PATCH" | "DELETE");
        let encoded = |argument: &Argument, text: &Text| match argument.encode {
            true => text.form_encoded(),
            false => text.clone(),
        };
        let query = in_query.then(|| pairs(&arguments, false, encoded)).filter(|q| !q.is_empty());
        let multipart = settings.switch(self, "HTTPSampler.DO_MULTIPART_POST", false);
        let content = |body, content_type: Option<&str>| Content {
            query: query.clone(),
            body,
            content_type: content_type.filter(|text| !text.is_empty()).map(str::to_owned),
        };
        if let [Part { name, content_type, content: PartContent::File(_, bytes) }] = &files[..]
            && name.is_empty()
            && has_body
            && !multipart
        {
            return content(Body::Bytes(bytes.clone()), Some(content_type));
        }
        if method == "POST" && (multipart || !files.is_empty()) {
            return content(Body::Multipart(parts(arguments, files)), None);
        }
        if !arguments.is_empty() && (raw || nameless) && (has_body || method == "GET") {
            let values = arguments.iter().flat_map(|argument| argument.value.clone());
            return content(Text::from_parts(values).into(), Some("text/plain; charset=UTF-8"));
        }
        if has_body {
            // All arguments are encoded, already encoded ones only once.
            let form = pairs(&arguments, true, |argument, text| match text.as_fixed() {
                Some(fixed) if !argument.encode => Text::fixed(decode(fixed)).form_encoded(),
                _ => text.form_encoded(),
            });
            return content(form.into(), Some("application/x-www-form-urlencoded; charset=UTF-8"));
        }
        content(Body::None, None)
    }

    fn arguments(&mut self, settings: &Settings<'_>) -> Vec<Argument> {
        let mut arguments = Vec::new();
        for element in &settings.elements {
            let Some(list) = element.properties.element("HTTPsampler.Arguments") else { continue };
            let list = list.elements("Arguments.arguments");
            arguments.extend(list.map(|argument| self.argument(element, argument)));
        }
        arguments
    }

    fn argument(&mut self, element: &Element, argument: &Properties) -> Argument {
        let name = "HTTPArgument.always_encode";
        let encode = self.fixed_text(element, argument.text(name), name);
        Argument {
            name: self.text(element, argument.text("Argument.name")),
            value: self.text(element, argument.text("Argument.value")),
            encode: encode == "true",
            equals: argument.text("Argument.metadata") == "="
                || argument.text("HTTPArgument.use_equals") == "true",
        }
    }

    fn files(&mut self, settings: &Settings<'_>) -> Vec<Part> {
        let element = settings.elements[0];
        let Some(list) = element.properties.element("HTTPsampler.Files") else { return Vec::new() };
        let mut files = Vec::new();
        for file in list.elements("HTTPFileArgs.files") {
            let path = self.fixed_text(element, file.text("File.path"), "File.path");
            if path.is_empty() {
                continue;
            }
            let path = self.variables.folder.join(path);
            let read = crate::bounded_file::read(&path, MAX_FILE_BYTES);
            let Some(bytes) = self.valid(element, read) else { continue };
            let mime = file.text("File.mimetype");
            files.push(Part {
                name: self.text(element, file.text("File.paramname")),
                content_type: self.fixed_text(element, mime, "File.mimetype"),
                content: PartContent::File(path, bytes.into()),
            });
        }
        files
    }
}

/// `name=value&…`; arguments without a name are left out. With `equals`, an empty value has a `=`,
/// too.
fn pairs(arguments: &[Argument], equals: bool, encode: impl Fn(&Argument, &Text) -> Text) -> Text {
    let mut parts = Vec::new();
    for argument in arguments.iter().filter(|argument| !argument.name.is_empty()) {
        if !parts.is_empty() {
            parts.push("&".into());
        }
        parts.extend(encode(argument, &argument.name));
        if equals || argument.equals || !argument.value.is_empty() {
            parts.push("=".into());
        }
        parts.extend(encode(argument, &argument.value));
    }
    Text::from_parts(parts)
}

fn parts(arguments: Vec<Argument>, mut files: Vec<Part>) -> Vec<Part> {
    for file in files.iter_mut().filter(|file| file.content_type.is_empty()) {
        "application/octet-stream".clone_into(&mut file.content_type);
    }
    let fields = arguments.into_iter().filter(|argument| !argument.name.is_empty());
    let fields = fields.map(|argument| Part {
        name: argument.name,
        content_type: "text/plain; charset=UTF-8".to_owned(),
        content: PartContent::Text(argument.value),
    });
    fields.chain(files).collect()
}
