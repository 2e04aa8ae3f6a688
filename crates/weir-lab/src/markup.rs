//! Values of HTML and XML: CSS selectors and XPath.

mod css;
mod document;
mod xpath;

pub(crate) use css::Css;
pub(crate) use document::check_xml;
pub(crate) use xpath::{Holds, XPath};
