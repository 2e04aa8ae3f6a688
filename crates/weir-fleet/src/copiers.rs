//! What a member copies between its own database and that of the fleet, besides usage.

use crate::audit::AuditCopier;
use crate::claim::Ends;
use crate::copy_error::CopyError;
use crate::database::Connection;
use crate::identity::Boot;
use crate::resolutions::ResolutionCopier;
use crate::revoked_keys::RevokedKeyCopier;
use crate::tokens::{TokenCopier, TokenCopyError, TokenTable};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;
use weir_store::StoreError;
use weir_store::audit::{AuditEvent, AuditLog};
use weir_store::ledger::Ledger;
use weir_store::revoked_keys::RevokedKeys;

/// Batches of audit entries of a step: other work does not wait for all of a long log.
const MAX_BATCHES: usize = 4;

/// Copiers of revoked API keys, admin tokens, attempts, resolutions and audit entries.
#[derive(Debug)]
pub(crate) struct Copiers {
    revoked_keys: RevokedKeyCopier,
    ends: Ends,
    resolutions: ResolutionCopier,
    audit: AuditCopier,
    tokens: TokenCopier,
}

/// Why something was not copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopierError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Tokens(#[from] TokenCopyError),
}

impl Copiers {
    /// Opens the database of a data folder.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(
        data: &Path,
        tokens: Arc<TokenTable>,
        revoked_keys: Arc<RevokedKeys>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            revoked_keys: RevokedKeyCopier::new(revoked_keys),
            ends: Ends::new(Ledger::open(data)?),
            resolutions: ResolutionCopier::new(Ledger::open(data)?),
            audit: AuditCopier::new(AuditLog::open(data)?),
            tokens: TokenCopier::new(tokens),
        })
    }

    /// After a new registration.
    pub(crate) fn connected(&mut self) {
        self.revoked_keys.connected();
        self.ends.connected();
        self.resolutions.connected();
        self.audit.connected();
        self.tokens.connected();
    }

    /// Copies what has changed, but no revoked API keys.
    pub(crate) async fn step(
        &mut self,
        connection: &mut Connection,
        node: Uuid,
        boot: Boot,
    ) -> Result<(), CopierError> {
        self.tokens.step(connection, node).await?;
        // What has been sent is stored as such before the resolutions are copied.
        self.ends.step(connection, node).await?;
        self.resolutions.step(connection).await?;
        self.copy_audit(connection, node, boot).await?;
        Ok(())
    }

    /// Copies revoked API keys. Apart from the rest, which may take longer.
    pub(crate) async fn copy_revoked_keys(
        &mut self,
        connection: &mut Connection,
    ) -> Result<(), CopierError> {
        Ok(self.revoked_keys.step(connection).await?)
    }

    /// Writes an entry of the own audit log; the next step copies it.
    pub(crate) fn record(&self, event: &AuditEvent) -> Result<(), CopyError> {
        self.audit.record(event)
    }

    /// Copies audit entries.
    pub(crate) async fn copy_audit(
        &mut self,
        connection: &mut Connection,
        node: Uuid,
        boot: Boot,
    ) -> Result<(), CopyError> {
        for _ in 0..MAX_BATCHES {
            if !self.audit.step(connection, node, boot).await? {
                break;
            }
        }
        Ok(())
    }
}
