//! Samplers without a request.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::program::{Dummy, LocalKind, LocalSample};

impl Translation<'_> {
    /// A Debug or Dummy Sampler.
    pub(super) fn local_sample(&mut self, element: &Element, scope: &Scope<'_>) -> LocalSample {
        let kind = match element.class.as_str() {
            "DebugSampler" => LocalKind::Debug {
                variables: self.switch(element, "displayJMeterVariables", false),
                properties: self.switch(element, "displayJMeterProperties", false),
            },
            _ => LocalKind::Dummy(Box::new(self.dummy(element))),
        };
        LocalSample {
            label: self.label(element),
            name: self.changing_label(element, false),
            kind,
            checks: self.checks(scope),
            post_processors: self.post_processors(scope),
        }
    }

    fn dummy(&mut self, element: &Element) -> Dummy {
        let status = self.property(element, "RESPONSE_CODE");
        if status.as_fixed().is_some_and(|code| !code.is_empty() && code.parse::<u16>().is_err()) {
            self.unsupported(element, "the Lab supports only numbers as `RESPONSE_CODE`");
        }
        Dummy {
            // Sic.
            success: self.property(element, "SUCCESFULL"),
            status,
            reason: self.property(element, "RESPONSE_MESSAGE"),
            body: self.property(element, "RESPONSE_DATA"),
            request: self.property(element, "REQUEST_DATA"),
            url: self.property(element, "URL"),
            elapsed: self.property(element, "RESPONSE_TIME"),
            latency: self.property(element, "LATENCY"),
            connect: self.property(element, "CONNECT"),
            waits: self.switch(element, "WAITING", false),
        }
    }
}
