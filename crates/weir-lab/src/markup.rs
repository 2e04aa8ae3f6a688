//! Values of HTML and XML: CSS selectors and XPath.

mod css;
mod document;
mod links;
mod scan;
mod xpath;

pub(crate) use css::Css;
pub(crate) use document::check_xml;
pub(crate) use links::{of_css as links_of_css, of_html as links_of_html};
pub(crate) use xpath::{Holds, XPath};
