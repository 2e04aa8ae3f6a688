//! CSS selectors on HTML, with the texts of jsoup.

use super::scan::check_html;
use crate::budget::Budget;
use scraper::node::Node;
use scraper::{ElementRef, Html, Selector};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Compiled selectors cached by each thread.
const MAX_CACHED: usize = 256;
/// Elements whose text is not separated from its neighbours.
const INLINE: [&str; 24] = [
    "a", "abbr", "b", "bdi", "cite", "code", "data", "em", "font", "i", "img", "input", "kbd",
    "label", "mark", "q", "s", "small", "span", "strong", "sub", "sup", "tt", "u",
];

thread_local! {
    static CACHE: RefCell<HashMap<String, Rc<Selector>>> = RefCell::default();
}

/// A selector, and the attribute of the elements; their text if empty.
#[derive(Clone, Debug)]
pub struct Css {
    selector: String,
    attribute: String,
}

impl Css {
    /// Checks a selector.
    ///
    /// # Errors
    /// The selector is invalid or unsupported.
    pub(crate) fn parse(selector: &str, attribute: &str) -> Result<Self, String> {
        Selector::parse(selector).map_err(|error| error.to_string())?;
        Ok(Self { selector: selector.to_owned(), attribute: attribute.to_owned() })
    }

    /// The first texts or attributes of the selected elements.
    ///
    /// # Errors
    /// The document or the texts are too large; the selector is invalid, which [`Self::parse`] excludes.
    pub(crate) fn texts(&self, html: &str, most: usize) -> Result<Vec<String>, String> {
        let selector = CACHE.with_borrow_mut(|known| {
            if let Some(selector) = known.get(&self.selector) {
                return Ok(selector.clone());
            }
            let selector = Selector::parse(&self.selector).map_err(|error| error.to_string())?;
            if known.len() >= MAX_CACHED {
                known.clear();
            }
            let selector = Rc::new(selector);
            known.insert(self.selector.clone(), selector.clone());
            Ok::<_, String>(selector)
        })?;
        check_html(html)?;
        let document = Html::parse_document(html);
        let mut budget = Budget::default();
        let value = |element: ElementRef<'_>| match self.attribute.as_str() {
            "" => text(element, &mut budget),
            name => {
                let value = element.value().attr(&name.to_ascii_lowercase()).unwrap_or_default();
                budget.take(value.len())?;
                Ok(value.to_owned())
            }
        };
        document.select(&selector).take(most).map(value).collect()
    }
}

/// The text of an element: white space is one blank, and blocks are separated by one.
fn text(element: ElementRef<'_>, budget: &mut Budget) -> Result<String, String> {
    let mut out = String::new();
    // Nodes to visit, and ends of blocks.
    let mut open = vec![Some(*element)];
    while let Some(next) = open.pop() {
        let Some(node) = next else {
            separate(&mut out);
            continue;
        };
        // A visit of a node counts as a byte.
        budget.take(1)?;
        match node.value() {
            Node::Text(text) => {
                budget.take(text.len())?;
                for character in text.chars() {
                    match character.is_ascii_whitespace() {
                        true => separate(&mut out),
                        false => out.push(character),
                    }
                }
            }
            Node::Element(inner) if !INLINE.contains(&inner.name()) => {
                separate(&mut out);
                open.push(None);
            }
            _ => {}
        }
        open.extend(node.children().rev().map(Some));
    }
    Ok(out.trim().to_owned())
}

fn separate(out: &mut String) {
    if !out.ends_with(' ') {
        out.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_selected() {
        let html = "<html><body><p class=a>One <b>bold</b>\n text</p><div><p>Two</p><p>3</p></div>\
                    <input name=t value='tok'><a href=/x>L</a></body></html>";
        let found = |selector: &str, attribute: &str| {
            Css::parse(selector, attribute).and_then(|css| css.texts(html, 10)).expect("a selector")
        };
        assert_eq!(found("p.a", ""), ["One bold text"]);
        assert_eq!(found("div", ""), ["Two 3"]);
        assert_eq!(found("input[name=t]", "value"), ["tok"]);
        assert_eq!(found("a[href^='/']", "href"), ["/x"]);
        assert_eq!(found("p:nth-child(2)", ""), ["3"]);
        assert_eq!(found("p", "id"), ["", "", ""]);
        assert!(Css::parse("p:eq(1)", "").is_err() && Css::parse("[", "").is_err());
    }
}
