//! The credential that weir presents to an upstream.

use super::{Fields, Resolver};
use crate::config::Credential;
use crate::config::credential::{BASIC, CREDENTIAL_HEADER};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use weir_document::finding::Fault;
use weir_document::shape::format;

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
