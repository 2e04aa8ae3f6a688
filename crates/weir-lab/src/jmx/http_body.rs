//! Bodies of samplers: arguments in the query or as a form, raw bodies, files, parts.

use super::http::Settings;
use super::translate::Translation;
use super::tree::{Element, Properties};
use crate::charset::Charset;
use crate::program::{Body, FileName, MAX_FILE_BYTES, Multipart, Part, PartContent, Text};

/// Query and body made of arguments and files.
pub(super) struct Content {
    /// The query.
    pub(super) query: Option<Text>,
    /// The body.
    pub(super) body: Body,
    /// Content type, unless set by a header manager.
    pub(super) content_type: Option<String>,
    /// The body has parts.
    pub(super) is_multipart: bool,
}

/// An argument.
struct Argument {
    name: Text,
    value: Text,
    /// Encode name and value.
    encode: bool,
    /// Content type as a part.
    content_type: String,
    /// Write `=` even without a value.
    equals: bool,
}

impl Translation<'_> {
    /// Query and body of a sampler, as in JMeter.
    pub(super) fn content(
        &mut self,
        settings: &Settings<'_>,
        method: &str,
        encoding: Charset,
    ) -> Content {
        let arguments = self.arguments(settings, encoding);
        let files = self.files(settings);
        let raw = settings.switch(self, "HTTPSampler.postBodyRaw", false);
        let nameless = arguments.iter().all(|argument| argument.name.is_empty());
        let in_query = matches!(method, "GET" | "DELETE" | "OPTIONS");
        let has_body = !matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE");
        // Names of a query are always in UTF-8.
        let of_query = |argument: &Argument, text: &Text| {
            let is_name = std::ptr::eq(text, &raw const argument.name);
            let encoding = if is_name { Charset::UTF_8 } else { encoding };
            if argument.encode { text.form_encoded(encoding) } else { text.clone() }
        };
        let query = in_query.then(|| pairs(&arguments, false, of_query)).filter(|q| !q.is_empty());
        let wants_parts = settings.switch(self, "HTTPSampler.DO_MULTIPART_POST", false);
        let lax = settings.switch(self, "HTTPSampler.BROWSER_COMPATIBLE_MULTIPART", false);
        let content = |body, content_type: Option<&str>| Content {
            query: query.clone(),
            is_multipart: matches!(body, Body::Multipart(_)),
            body,
            content_type: content_type.filter(|text| !text.is_empty()).map(str::to_owned),
        };
        let is_body = matches!(&files[..], [file] if file.name.is_empty());
        if has_body && (wants_parts || !(files.is_empty() || is_body)) {
            if files.iter().any(|file| file.content_type.is_empty()) {
                let message = "JMeter cannot send a file as a part without `File.mimetype`";
                self.invalid(settings.elements[0], message);
            }
            let parts = Multipart { parts: parts(arguments, files, lax), encoding };
            return content(Body::Multipart(parts), None);
        }
        if let [Part { content_type, content: sent, .. }] = &files[..]
            && arguments.is_empty()
            && (has_body || method == "GET")
        {
            let body = match sent {
                PartContent::File(_, bytes) => Body::Bytes(bytes.clone()),
                PartContent::Named(file) => Body::File(file.clone()),
                PartContent::Text(text) => text.clone().into(),
            };
            return content(body, Some(content_type));
        }
        let charset = encoding.name();
        if !arguments.is_empty() && (raw || nameless) && (has_body || method == "GET") {
            let values = arguments.iter().flat_map(|argument| match argument.encode && !raw {
                true => argument.value.form_encoded(encoding),
                false => argument.value.clone(),
            });
            let text = Text::from_parts(values);
            let body = if encoding == Charset::UTF_8 {
                text.into()
            } else {
                Body::Encoded(text, encoding)
            };
            let of_text = format!("text/plain; charset={charset}");
            let of_file = files.first().map(|file| file.content_type.as_str());
            return content(body, of_file.filter(|t| !t.is_empty()).or(Some(&of_text)));
        }
        if has_body {
            // All arguments are encoded, already encoded ones only once.
            let form = pairs(&arguments, true, |argument, text| match argument.encode {
                true => text.form_encoded(encoding),
                false => text.form_encoded_again(encoding),
            });
            let of_form = format!("application/x-www-form-urlencoded; charset={charset}");
            return content(form.into(), Some(&of_form));
        }
        content(Body::None, None)
    }

    fn arguments(&mut self, settings: &Settings<'_>, encoding: Charset) -> Vec<Argument> {
        let mut arguments = Vec::new();
        for element in &settings.elements {
            let Some(list) = element.properties.element("HTTPsampler.Arguments") else { continue };
            let list = list.elements("Arguments.arguments");
            arguments.extend(list.map(|argument| self.argument(element, argument, encoding)));
        }
        arguments
    }

    fn argument(
        &mut self,
        element: &Element,
        argument: &Properties,
        encoding: Charset,
    ) -> Argument {
        let name = "HTTPArgument.always_encode";
        let encode = self.fixed_text(element, argument.text(name), name);
        Argument {
            name: self.text(element, argument.text("Argument.name")),
            value: self.text(element, argument.text("Argument.value")),
            encode: encode == "true",
            content_type: self.content_type(element, argument, encoding),
            equals: argument.text("Argument.metadata") == "="
                || argument.text("HTTPArgument.use_equals") == "true",
        }
    }

    /// Content type of the part of an argument.
    fn content_type(
        &mut self,
        element: &Element,
        argument: &Properties,
        encoding: Charset,
    ) -> String {
        let name = "HTTPArgument.content_type";
        let written = self.fixed_text(element, argument.text(name), name);
        match written.as_str() {
            "" => format!("text/plain; charset={}", encoding.name()),
            with if with.contains(';') => written,
            _ => format!("{written}; charset={}", encoding.name()),
        }
    }

    fn files(&mut self, settings: &Settings<'_>) -> Vec<Part> {
        let element = settings.elements[0];
        let Some(list) = element.properties.element("HTTPsampler.Files") else { return Vec::new() };
        let mut files = Vec::new();
        for file in list.elements("HTTPFileArgs.files") {
            let name = self.text(element, file.text("File.path"));
            let folder = self.variables.folder.clone();
            let content = match name.as_fixed() {
                Some("") => continue,
                Some(name) => {
                    let path = folder.join(name);
                    let read = crate::bounded_file::read(&path, MAX_FILE_BYTES);
                    let Some(bytes) = self.valid(element, read) else { continue };
                    PartContent::File(path, bytes.into())
                }
                None => PartContent::Named(FileName { folder, name }),
            };
            let mime = file.text("File.mimetype");
            files.push(Part {
                name: self.text(element, file.text("File.paramname")),
                content_type: self.fixed_text(element, mime, "File.mimetype"),
                content,
                transfer: "",
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

/// Parts of a `multipart/form-data` body. In the mode of browsers, fields have no type.
fn parts(arguments: Vec<Argument>, mut files: Vec<Part>, lax: bool) -> Vec<Part> {
    for file in &mut files {
        file.transfer = if lax { "" } else { "binary" };
    }
    let fields = arguments.into_iter().filter(|argument| !argument.name.is_empty());
    let fields = fields.map(|argument| Part {
        name: argument.name,
        content_type: if lax { String::new() } else { argument.content_type },
        content: PartContent::Text(argument.value),
        transfer: if lax { "" } else { "8bit" },
    });
    fields.chain(files).collect()
}
