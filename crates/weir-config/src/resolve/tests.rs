use super::{INCLUDED, ROOT};
use weir_document::check;
use weir_document::finding::Diagnostics;
use weir_document::shape::settings::literal;
use weir_document::shape::{Key, Shape};

/// Calls `visit` for every key of the configuration.
fn each_key(visit: &mut dyn FnMut(&'static Shape, &'static Key)) {
    for shape in ROOT.all().into_iter().chain(INCLUDED.all()) {
        shape.keys.iter().for_each(|key| visit(shape, key));
    }
}

#[test]
fn every_default_is_a_value_of_its_key() {
    each_key(&mut |shape, key| {
        let Some(default) = key.default else { return };
        let mut report = Diagnostics::default();
        check::value(&literal(default), &key.kind, key.name, &mut report);
        assert!(!report.has_errors(), "`{}` of {}: {default}", key.name, shape.name);
    });
}

#[test]
fn what_holds_without_a_key_is_no_prose_of_its_meaning() {
    each_key(&mut |shape, key| {
        let says = ["by default", "defaults to", "(default", "said otherwise"]
            .iter()
            .any(|word| key.doc.contains(word));
        assert!(
            !says || key.default.is_some() || key.absent.is_some(),
            "`{}` of {}: {}",
            key.name,
            shape.name,
            key.doc
        );
    });
}
