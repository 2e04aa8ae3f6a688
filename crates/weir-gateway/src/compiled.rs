//! What is compiled of a configuration, once for its findings and for the Site.

use crate::digest::ConfigurationDigest;
use std::sync::Arc;
use weir_auth::VerificationKeys;
use weir_config::{Config, ScriptSource, Uncompiled};
use weir_document::finding::{Diagnostics, codes};
use weir_net::tls::{Certificates, UpstreamClients};
use weir_validate::Schemas;

/// The compiled parts of a configuration. A clone shares them.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Keys that verify tokens.
    pub verification_keys: VerificationKeys,
    /// Schemas that bodies and parameters are compared with.
    pub schemas: Schemas,
    /// Certificates of listeners and upstreams.
    pub certificates: Arc<Certificates>,
    /// TLS settings by upstream.
    pub upstream_clients: Arc<UpstreamClients>,
    /// Digest of what it was compiled from; empty while that has errors.
    pub digest: Arc<ConfigurationDigest>,
}

impl Compiled {
    /// Compiles. What cannot be compiled is a finding.
    pub(crate) fn new(
        config: Option<&Config>,
        uncompiled: Uncompiled,
        report: &mut Diagnostics,
    ) -> Self {
        let verification_keys = VerificationKeys::compile(&uncompiled.token_keys, report);
        let schemas = Schemas::compile(uncompiled.schemas, &uncompiled.documents, report);
        let certificates = Certificates::compile(uncompiled.tls, report);
        for script in &uncompiled.scripts {
            check_script(script, report);
        }
        let valid = config.filter(|_| !report.has_errors());
        let clients = valid.map(|config| UpstreamClients::new(config, &certificates)).transpose();
        let upstream_clients = clients.unwrap_or_else(|error| {
            report.error(codes::BAD_CERTIFICATE, None, error.to_string());
            None
        });
        Self {
            verification_keys,
            schemas,
            certificates: Arc::new(certificates),
            upstream_clients: Arc::new(upstream_clients.unwrap_or_default()),
            digest: Arc::default(),
        }
    }
}

/// Compiles a script, which each worker does again for its engine. A map needs a default export.
fn check_script(script: &ScriptSource, report: &mut Diagnostics) {
    let program = &script.program;
    if let Err(error) = weir_script::check(program) {
        report.error(codes::BAD_SCRIPT, script.at, error.to_string());
    } else if let Some(at) = script.map_at
        && !program.exports.iter().any(|name| name == "default")
    {
        let message = format!("{} has no default export, which a map needs", program.name());
        report.error(codes::BAD_SCRIPT, at, message);
    }
}
