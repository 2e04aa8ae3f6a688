//! Samplers without a request.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::program::{Dummy, LocalKind, LocalSample, ScriptId, Step};

impl Translation<'_> {
    /// A Debug or Dummy Sampler, or a script.
    pub(super) fn local_sample(
        &mut self,
        element: &Element,
        scope: &Scope<'_>,
        steps: &mut Vec<Step>,
    ) -> LocalSample {
        let kind = match element.class.as_str() {
            "DebugSampler" => LocalKind::Debug {
                variables: self.switch(element, "displayJMeterVariables", false),
                properties: self.switch(element, "displayJMeterProperties", false),
                system: self.switch(element, "displaySystemProperties", false),
            },
            "JSR223Sampler" | "BeanShellSampler" => {
                LocalKind::Script(self.script(element).unwrap_or(ScriptId(0)))
            }
            _ => LocalKind::Dummy(Box::new(self.dummy(element))),
        };
        let (label, name) = (self.label(element), self.changing_label(element, false));
        self.run_functions(steps);
        let (post_processors, checks) = (self.post_processors(scope), self.checks(scope));
        let scripts = self.take_after(scope, None);
        LocalSample { label, name, kind, checks, post_processors, scripts }
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
