//! Receivers of metrics during the run.

use super::html::count;
use crate::results::ExportFigures;
use maud::{Markup, html};

/// What became of the batches; `None` without receivers.
pub(super) fn table(exports: &[ExportFigures]) -> Option<Markup> {
    (!exports.is_empty()).then(|| {
        html! {
            p.caption {
                "Sums are cumulative: a batch that a receiver did not accept costs resolution in time there, "
                "and nothing here."
            }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "Receiver" } th { "Protocol" } th.n { "Batches" } th.n { "Accepted" }
                    th.n { "Rejected" } th.n { "Dropped" } th { "Last problem" }
                } }
                tbody {
                    @for one in exports {
                        tr {
                            td { (one.to) } td { (one.protocol) } td.n { (count(one.batches)) }
                            td.n { (count(one.accepted)) } td.n { (count(one.rejected)) }
                            td.n { (count(one.dropped)) }
                            td { (one.problem.as_deref().unwrap_or_default()) }
                        }
                    }
                }
            } }
        }
    })
}
