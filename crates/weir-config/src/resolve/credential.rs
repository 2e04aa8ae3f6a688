//! The credential that weir presents to an upstream.

use super::{Fields, Resolver};
use crate::config::Credential;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use weir_document::finding::Fault;
use weir_document::shape::{Group, Key, Kind, Shape, format};

/// `auth` of an upstream.
pub(super) static CREDENTIAL: Shape = Shape {
    groups: &[Group { keys: &["basic", "bearer", "header"], required: true }],
    ..Shape::new(
        "the credential of an upstream",
        "The credential: exactly one of these.",
        &[
            Key::new("basic", Kind::Object(&BASIC), "HTTP Basic."),
            Key::new("bearer", Kind::Secret, "Token in `Authorization: Bearer`."),
            Key::new("header", Kind::Object(&CREDENTIAL_HEADER), "A custom header."),
        ],
    )
};

/// `basic` of a credential.
pub(super) static BASIC: Shape = Shape::new(
    "an HTTP Basic credential",
    "HTTP Basic (RFC 7617).",
    &[
        Key::new("user", Kind::Text, "User name, without a colon.").required(),
        Key::new("password", Kind::Secret, "Password.").required(),
    ],
);

/// `header` of a credential.
pub(super) static CREDENTIAL_HEADER: Shape = Shape::new(
    "a credential header",
    "A header that carries the credential.",
    &[
        Key::new("name", Kind::Format(format::EDITABLE_HEADER), "Name of the header.").required(),
        Key::new("value", Kind::Secret, "Value of the header.").required(),
    ],
);

impl Resolver<'_> {
    pub(super) fn credential(&mut self, fields: &Fields<'_>) -> Option<Credential> {
        let (header, value, node) = if let Some(basic) = fields.object("basic", &BASIC) {
            let (user, password) = (basic.line("user")?, basic.line("password")?);
            if user.contains(':') {
                let node = basic.get("user")?;
                self.fault(node, Fault::value("a user name must not contain a colon (RFC 7617)"));
                return None;
            }
            let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
            ("authorization".to_owned(), format!("Basic {pair}"), basic.node())
        } else if let Some(token) = fields.line("bearer") {
            ("authorization".to_owned(), format!("Bearer {token}"), fields.get("bearer")?)
        } else {
            let header = fields.object("header", &CREDENTIAL_HEADER)?;
            let (name, value) = (header.line("name")?, header.line("value")?);
            (name.to_ascii_lowercase(), value.to_owned(), header.get("value")?)
        };
        if let Err(fault) = format::HEADER_VALUE.check(&value) {
            self.fault(node, fault);
            return None;
        }
        Some(Credential { header, value })
    }
}
