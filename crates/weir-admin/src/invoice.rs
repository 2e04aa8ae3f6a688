//! Invoices as text and as a page.

mod csv;
mod html;

pub use csv::csv;
pub use html::html;
